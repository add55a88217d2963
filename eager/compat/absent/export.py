"""torch.export: programs are not exported yet."""

from .. import missing

_ADVICE = "programs are not exported; torch.compile compiles them in place, torch.save keeps their weights"
globals().update(
    missing.functions(
        "torch.export", "export draft_export load save unflatten register_dataclass default_decompositions dims", _ADVICE
    )
)
globals().update(
    missing.kinds(
        "torch.export",
        "AdditionalInputs Constraint CustomDecompTable Dim ExportBackwardSignature ExportedProgram "
        "ExportGraphSignature FlatArgsAdapter ModuleCallEntry ModuleCallSignature ShapesCollection UnflattenedModule",
        _ADVICE,
    )
)
