"""Programs that raise; tests/capture/test_exceptions.py runs them plain and compiled and compares all there is to see.

Each takes a fresh State, works on its tensor, leaves marks in its log, and raises, or returns what a handler saw.
"""

import contextlib
import functools
import operator
import sys
import traceback
import warnings

import flambeau as torch

PROGRAMS = {}
KERNELS = {}  # raised while kernels run
NAMES = {"a": 1}


class State:
    """What a program may change before it raises."""

    def __init__(self):
        self.x = torch.arange(6.0).reshape(2, 3)
        self.table = torch.arange(12.0).reshape(4, 3)
        self.log, self.count, self.extra = [], 0, {}

    def note(self, what):
        self.count = self.count + 1
        self.log.append(what)


class Refused(Exception):
    """With an attribute and a text of its own."""

    def __init__(self, code, *rest):
        super().__init__(code, *rest)
        self.code = code

    def __str__(self):
        return f"refused with {self.code}"


class Finer(Refused):
    pass


class Guarded:
    """A context manager that tells what it saw and may swallow it."""

    def __init__(self, s, swallow=False):
        self.s, self.swallow = s, swallow

    def __enter__(self):
        self.s.log.append("enter")
        return self

    def __exit__(self, kind, value, tb):
        self.s.log.append(("exit", getattr(kind, "__name__", None), str(value), tb is not None and tb.tb_lineno))
        return self.swallow


@contextlib.contextmanager
def guarded(s, swallow=False):
    s.log.append("enter")
    try:
        yield s
    except ValueError as error:
        s.log.append(("caught", str(error)))
        if not swallow:
            raise
    finally:
        s.log.append("leave")


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def kernel(function):
    KERNELS[function.__name__] = function
    return function


def fails(s, what="helper"):
    s.note(what)
    y = s.x + 1
    raise ValueError(what, int(y.shape[0]))


def deeper(s):
    return fails(s, "deeper") + 1


def seen(error):
    """What a handler can see of an exception, with its lines."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__]
    return type(error).__name__, str(error), error.args, lines, type(error.__context__).__name__, type(error.__cause__).__name__


# -- raised by the program


@program
def raised_at_once(s):
    raise ValueError("at once")


@program
def raised_after_work(s):
    y = s.x * 2
    s.note("worked")
    raise ValueError("after", float(y.shape[0]))


@program
def raised_as_a_class(s):
    s.x.mul(2)
    raise KeyError


@program
def raised_under_a_condition(s):
    if s.x.sum() > 3:
        s.note("large")
        raise ValueError("large")
    return s.x


@program
def raised_in_a_call(s):
    y = s.x * 2
    fails(s)
    return y


@program
def raised_two_calls_down(s):
    s.note("first")
    return deeper(s) * 2


@program
def raised_in_a_loop(s):
    y = s.x
    for k in range(5):
        y = y + k
        s.note(k)
        if k == 3:
            raise IndexError(f"iteration {k}")
    return y


@program
def raised_with_a_message_of_values(s):
    raise TypeError(f"bad shape {tuple(s.x.shape)} of {s.x.dtype}: {s.x.sum().item():.2f}")


@program
def raised_with_a_tensor(s):
    raise ValueError("tensor", s.x + 1)


@program
def raised_own_class(s):
    s.note("own")
    raise Finer(7, "rest")


@program
def raised_own_class_with_attributes(s):
    error = Refused(3)
    error.where = "here"
    raise error


@program
def raised_in_a_comprehension(s):
    return [s.x * k if k < 2 else operator.truediv(1, 0) for k in range(4)]


@program
def raised_in_a_lambda(s):
    return (lambda v: v / 0)(s.count) + s.x


@program
def raised_in_a_generator(s):
    def numbers():
        yield s.x
        s.note("second")
        raise LookupError("in the generator")

    return sum(numbers())


@program
def raised_in_a_key(s):
    return sorted([3, 1, 2], key=lambda v: {3: 1, 1: 2}[v]), s.x + 1


@program
def raised_in_map(s):
    return list(map(fails, [s, s]))


@program
def raised_in_reduce(s):
    return functools.reduce(lambda a, b: a + [b][1], [s.x, s.x])


@program
def raised_in_a_property(s):
    class Holder:
        @property
        def value(self):
            raise RuntimeError("property")

    return s.x + Holder().value


@program
def raised_in_init(s):
    class Holder:
        def __init__(self):
            s.note("init")
            raise RuntimeError("init")

    return s.x + Holder()


@program
def raised_in_enter(s):
    class Manager(Guarded):
        def __enter__(self):
            raise OSError(2, "enter")

    with Manager(s):
        return s.x + 1


@program
def raised_in_exit(s):
    class Manager(Guarded):
        def __exit__(self, *what):
            raise OSError(5, "exit")

    with Manager(s):
        y = s.x + 1
        s.note("body")
    return y


@program
def raised_in_exit_while_raising(s):
    class Manager(Guarded):
        def __exit__(self, kind, value, tb):
            raise OSError(5, "exit")

    with Manager(s):
        raise ValueError("body")


@program
def raised_in_an_operator(s):
    class Strange:
        def __add__(self, other):
            raise ArithmeticError("no sum")

    return Strange() + s.x


@program
def raised_in_a_decorated_function(s):
    def twice(f):
        @functools.wraps(f)
        def wrapper(*args):
            f(*args)
            return f(*args)

        return wrapper

    @twice
    def work(s):
        s.note("work")
        if s.count == 2:
            raise ValueError("second time")

    work(s)
    return s.x + 1


@program
def base_exceptions(s):
    s.note("before")
    raise SystemExit(3)


@program
def keyboard_interrupt(s):
    s.x.add_(1)
    raise KeyboardInterrupt("by hand")


@program
def stop_iteration(s):
    s.x.add_(1)
    raise StopIteration(4)


@program
def groups(s):
    raise ExceptionGroup("several", [ValueError("one"), TypeError("two")])


@program
def groups_caught(s):
    try:
        raise ExceptionGroup("several", [ValueError("one"), TypeError("two")])
    except* ValueError as group:
        s.log.append([str(e) for e in group.exceptions])
    return s.x


# -- chains


@program
def cause(s):
    try:
        s.x.sum()
        fails(s)
    except ValueError as error:
        raise RuntimeError("outer") from error


@program
def cause_none(s):
    try:
        fails(s)
    except ValueError:
        raise RuntimeError("outer") from None


@program
def cause_made(s):
    raise RuntimeError("outer") from KeyError("made")


@program
def context(s):
    try:
        y = s.x + 1
        {}["missing"]
    except KeyError:
        s.note("handler")
        raise RuntimeError("in the handler", tuple(y.shape))


@program
def context_of_context(s):
    try:
        try:
            fails(s)
        except ValueError:
            [][1]
    except IndexError:
        int("x")


@program
def context_of_a_call_in_the_handler(s):
    try:
        1 / 0
    except ZeroDivisionError:
        deeper(s)


@program
def bare_raise(s):
    try:
        deeper(s)
    except ValueError:
        s.note("passing on")
        raise


@program
def raised_again_by_name(s):
    try:
        deeper(s)
    except ValueError as error:
        s.note("passing on")
        raise error


@program
def raised_again_later(s):
    kept = None
    try:
        deeper(s)
    except ValueError as error:
        kept = error
    s.x.add_(1)
    raise kept


@program
def bare_raise_of_nothing(s):
    s.note("nothing")
    raise


@program
def bare_raise_in_a_call(s):
    def again():
        raise

    try:
        deeper(s)
    except ValueError:
        again()


@program
def notes(s):
    error = ValueError("noted")
    error.add_note("first note")
    error.add_note(f"shape {tuple(s.x.shape)}")
    raise error


@program
def notes_on_the_way(s):
    try:
        deeper(s)
    except ValueError as error:
        error.add_note("seen on the way")
        raise


@program
def finally_runs(s):
    try:
        s.note("try")
        fails(s)
    finally:
        s.note("finally")
        s.x.add_(1)


@program
def finally_raises(s):
    try:
        fails(s)
    finally:
        raise RuntimeError("finally")


@program
def finally_swallows(s):
    while True:
        try:
            fails(s)
        finally:
            break
    return s.x + 1


@program
def finally_returns(s):
    try:
        fails(s)
    finally:
        return s.x + 1  # noqa: B012


@program
def the_else_part_raises(s):
    try:
        y = s.x + 1
    except ValueError:
        return None
    else:
        raise ValueError("else", tuple(y.shape))
    finally:
        s.note("finally")


@program
def another_handler(s):
    try:
        fails(s)
    except (KeyError, TypeError):
        s.note("wrong")
    except Refused:
        s.note("wrong")


@program
def handlers_in_a_loop(s):
    y = s.x
    for k in range(4):
        try:
            y = y + k
            if k % 2:
                raise ValueError(k)
        except ValueError as error:
            s.note(error.args)
            if k == 3:
                raise KeyError("third") from error
    return y


@program
def the_name_is_gone(s):
    try:
        fails(s)
    except ValueError as error:
        s.note(str(error))
    return s.x + error  # noqa: F821


@program
def managers(s):
    with Guarded(s), Guarded(s):
        deeper(s)


@program
def manager_swallows(s):
    y = s.x
    with Guarded(s, swallow=True):
        y = y + 1
        deeper(s)
    return y + 1


@program
def generator_manager(s):
    with guarded(s):
        fails(s)


@program
def generator_manager_swallows(s):
    with guarded(s, swallow=True):
        fails(s)
    return s.x + 1


@program
def suppress(s):
    with contextlib.suppress(ValueError):
        fails(s)
    raise LookupError("after")


@program
def exit_stack(s):
    with contextlib.ExitStack() as stack:
        stack.enter_context(Guarded(s))
        stack.callback(s.note, "callback")
        fails(s)


@program
def no_grad_is_left(s):
    with torch.no_grad():
        s.x.add_(1)
        fails(s)


@program
def thrown_into_a_generator(s):
    def numbers():
        try:
            yield s.x
        except KeyError as error:
            raise ValueError("inside") from error

    made = numbers()
    next(made)
    made.throw(KeyError("thrown"))


@program
def stop_iteration_in_a_generator(s):
    def numbers():
        yield s.x
        raise StopIteration("early")

    return list(numbers())


# -- what handlers see


@program
def what_a_handler_sees(s):
    try:
        deeper(s)
    except ValueError as error:
        s.log.append(seen(error))
    return s.x + 1


@program
def what_a_handler_sees_of_python(s):
    y = s.x + 1
    try:
        y = y + {}["missing"]
    except KeyError as error:
        s.log.append(seen(error))
    return y


@program
def what_a_handler_sees_of_a_tensor_error(s):
    try:
        return s.x @ s.x
    except RuntimeError as error:
        s.log.append(seen(error))
    return s.x + 1


@program
def exc_info(s):
    try:
        fails(s)
    except ValueError:
        kind, value, tb = sys.exc_info()
        s.log.append((kind.__name__, value.args, tb.tb_lineno))
    return s.x + 1, sys.exc_info()


@program
def format_exc(s):
    try:
        deeper(s)
    except ValueError:
        s.log.append([line for line in traceback.format_exc().splitlines() if "flambeau" not in line])
    return s.x + 1


@program
def returned(s):
    try:
        deeper(s)
    except ValueError as error:
        return error


@program
def kept_in_a_list(s):
    found = []
    for k in (0, 1):
        try:
            s.x + [s.x][k]
        except IndexError as error:
            found.append(error)
    s.log += found
    return s.x + 1


@program
def matched(s):
    try:
        raise Finer(5)
    except Exception as error:
        match error:
            case Refused(code=code):
                return s.x + code


@program
def break_inside_try(s):
    y = s.x + 1
    try:
        print("in try")
        y = y * 2
        fails(s)
    except ValueError as error:
        print("in handler", error)
        raise TypeError("outer") from error
    finally:
        print("finally")
        s.x.add_(y)


@program
def break_before_the_raise(s):
    y = s.x + 1
    print("broken")
    y = y * 2
    raise ValueError("after the break", tuple(y.shape))


@program
def breaks_in_a_loop(s):
    y = s.x
    for k in range(4):
        y = y + 1
        print(k)
        if k == 2:
            fails(s, k)
    return y


@program
def break_in_a_call(s):
    def helper(y):
        print("helper")
        y = y + 1
        return y["no"]

    return helper(s.x * 2)


# -- raised by Python


@program
def missing_key(s):
    return s.x + NAMES["b"]


@program
def missing_index(s):
    return s.x + (1, 2)[2]


@program
def missing_attribute(s):
    s.note("before")
    return s.x + s.nothing


@program
def missing_attribute_of_a_tensor(s):
    return s.x.nothing


@program
def missing_attribute_of_a_module(s):
    return torch.nothing_of_that_name(s.x)


@program
def missing_global(s):
    return s.x + nowhere  # noqa: F821


@program
def unbound_local(s):
    if s.count:
        y = s.x
    return y + 1


@program
def unbound_cell(s):
    def inner():
        return later + 1

    s.note("before")
    inner()
    later = s.x


@program
def wrong_arguments(s):
    return fails(s, "a", "b")


@program
def wrong_keyword(s):
    return fails(s, whatever=1)


@program
def missing_argument(s):
    return fails()


@program
def not_callable(s):
    return s.log(s.x)


@program
def not_subscriptable(s):
    return s.x + s[0]


@program
def not_iterable(s):
    for value in s.count:
        s.note(value)


@program
def not_a_manager(s):
    with s:
        return s.x + 1


@program
def too_many_to_unpack(s):
    (a,) = s.x
    return a


@program
def too_few_to_unpack(s):
    a, b, c, *d = (s.x, 1)
    return a


@program
def not_an_exception(s):
    raise s


@program
def wrong_operands(s):
    return "text" + s.count


@program
def unhashable(s):
    return {s.log: s.x}


@program
def wrong_number(s):
    return s.x + int("12a")


@program
def division(s):
    return s.x * (s.count // s.count)


@program
def overflow(s):
    return s.x + 10.0**400


@program
def assertion(s):
    assert s.x.shape[0] == 3, f"rows: {s.x.shape[0]}"
    return s.x


@program
def assertion_without_text(s):
    assert s.count
    return s.x


@program
def removed_twice(s):
    s.log.append(1)
    s.log.remove(1)
    s.log.remove(1)


@program
def changed_under_iteration(s):
    names = {"a": 1, "b": 2}
    for name in names:
        names[name + "x"] = 1
        s.note(name)
    return s.x


@program
def set_changed_under_iteration(s):
    names = {1, 2}
    for name in names:
        names.add(name + 5)
        s.note(name)
    return s.x


@program
def deleted_twice(s):
    del s.extra
    s.note("once")
    del s.extra


@program
def missing_import(s):
    import nowhere_to_be_found

    return nowhere_to_be_found


@program
def missing_name_in_import(s):
    from math import nowhere_to_be_found

    return nowhere_to_be_found


@program
def recursion(s):
    def down(n):
        return down(n + 1)

    return s.x + down(0)


@program
def abstract(s):
    import abc

    class Base(abc.ABC):
        @abc.abstractmethod
        def work(self):
            pass

    return s.x + Base()


@program
def warned_as_an_error(s):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.warn("careful", UserWarning, stacklevel=1)


# -- raised by tensors


@program
def shapes_of_a_product(s):
    s.note("before")
    return (s.x @ s.x).sum()


@program
def shapes_of_a_sum(s):
    y = s.x + 1
    return y + torch.ones(5)


@program
def a_dimension_out_of_range(s):
    return s.x.sum(dim=4)


@program
def a_view_that_does_not_fit(s):
    return s.x.view(4, 4)


@program
def a_wrong_dtype(s):
    return torch.nn.functional.embedding(s.x, s.table)


@program
def a_constant_index_out_of_range(s):
    return s.x[5]


@program
def too_many_indices(s):
    return s.x[0, 0, 0]


@program
def no_item(s):
    return s.x.item()


@program
def an_ambiguous_truth(s):
    return s.x if s.x else s.table


@program
def a_leaf_written_in_place(s):
    w = torch.ones(3, requires_grad=True)
    w.add_(1)
    return w


@program
def no_gradient(s):
    s.x.sum().backward()


@program
def a_module_that_does_not_fit(s):
    return s.linear(s.x)


@program
def cat_of_nothing(s):
    return torch.cat([])


# -- raised by kernels: known only when they run


@kernel
def an_index_out_of_range(s):
    y = s.x + 1
    s.note("before")
    s.x.add_(10)
    return s.table[s.index] + y.sum()


@kernel
def an_index_out_of_range_in_a_call(s):
    def look(index):
        return s.table[index] * 2

    s.note("before")
    return look(s.index).sum()


@kernel
def an_embedding_out_of_range(s):
    s.x.mul_(2)
    s.extra["key"] = 1
    y = torch.nn.functional.embedding(s.index, s.table)
    s.note("after")
    return y


@kernel
def an_embedding_out_of_range_that_is_caught(s):
    s.x.mul_(2)
    try:
        y = torch.nn.functional.embedding(s.index, s.table)
    except IndexError as error:
        s.log.append(seen(error))
        y = s.x
    return y + 1


@kernel
def gathered_out_of_range(s):
    return torch.gather(s.table, 0, s.index.view(1, -1))


@kernel
def selected_out_of_range(s):
    y = torch.index_select(s.table, 0, s.index)
    print("reached" if y.shape[0] else "empty")
    return y


@kernel
def scattered_out_of_range(s):
    s.note("before")
    s.table.scatter_(0, s.index.view(1, -1), 1.0)
    return s.table


@kernel
def a_class_out_of_range(s):
    return torch.nn.functional.cross_entropy(s.table, s.index4)


@kernel
def an_index_out_of_range_behind_a_break(s):
    y = s.x + 1
    print("broken")
    s.note("behind")
    return s.table[s.index] + y.sum()


@kernel
def an_index_out_of_range_in_a_loop(s):
    y = s.x.sum()
    for k in range(4):
        s.note(k)
        y = y + s.table[s.index - 6 + 2 * k].sum()
    return y


@kernel
def an_index_out_of_range_in_a_module(s):
    return s.embed(s.index)
