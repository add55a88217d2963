"""The C++ backend: `codegen.generate(program)` prints a loop program as C++, `wrapper.load(program)` compiles and
binds it.
"""
