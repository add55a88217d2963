"""torch.package: archives of code are neither written nor run."""

from .. import missing

_ADVICE = "files with code in them are neither written nor run; torch.save and torch.load keep weights"
globals().update(missing.functions("torch.package", "is_from_package", _ADVICE))
globals().update(
    missing.kinds(
        "torch.package",
        "Directory EmptyMatchError GlobGroup Importer ObjMismatchError ObjNotFoundError OrderedImporter "
        "PackageExporter PackageImporter PackagingError",
        _ADVICE,
    )
)
