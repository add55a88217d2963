"""torch.utils.mobile_optimizer: there are no scripts to rewrite."""

from .. import missing

_ADVICE = "there is no TorchScript here"
globals().update(missing.functions("torch.utils.mobile_optimizer", "optimize_for_mobile generate_mobile_module_lints", _ADVICE))
globals().update(missing.kinds("torch.utils.mobile_optimizer", "LintCode MobileOptimizerType", _ADVICE))
