"""torch._higher_order_ops: functions of functions that packages call. Each is written with ordinary ops, so that it is
differentiated and captured like any program.
"""
