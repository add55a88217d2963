"""Drawn programs about the language (language_draw.py), and small ones for what they and others found: plain and captured runs show the same.

`LANGUAGE_PROGRAMS` says how many are drawn.
"""

import os
import sys

import pytest

from . import fuzzing
from . import language_draw as language

DRAWN = int(os.environ.get("LANGUAGE_PROGRAMS", 60 if sys.version_info < (3, 12) else 20))
FIRST = int(os.environ.get("LANGUAGE_FIRST", 0))
PARTS = 4


def backend_of(seed):
    """Mostly the captured graph alone."""
    return {0: "aot_eager", 7: "loops"}.get(seed % 15, "inductor" if seed % 60 == 31 else fuzzing.interpreted)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("k", range(PARTS))
def test_drawn_programs_do_what_plain_ones_do(k):
    found = [
        told
        for seed in range(FIRST + k, FIRST + DRAWN, PARTS)
        if (told := fuzzing.differing(seed, kind=language, calls=3, backend=backend_of(seed), close=True))
    ]
    assert not found, "\n\n".join(found[:3])


SMALL = {
    "operators_in_place_make_a_new_frozenset_and_change_a_set": """
        out.append(x * 2)
        a, b = frozenset([1, 2]), {1, 2}
        c, d = a, b
        a |= {3}; b |= {3}
        out.append([repr(v) for v in (a, b, c, d)] + [a is c, b is d])
        a -= {1}; b ^= {2, 9}; b -= b
        out.append([repr(v) for v in (a, b, c, d)] + [a is c, b is d, x + 1])
    """,
    "the_text_of_a_set_from_outside": """
        out.append(x * 2)
        out.append((repr(box.setdefault('seen', set())), '%s' % box['seen']))
        box['seen'].add(n)
        print(end='')
        out.append((repr(box['seen']), x + len(f"{box['seen']}")))
    """,
    "of_equal_members_the_first_stays": """
        out.append(x * 2)
        a, b, c = set([1, True]), {1}, {0: 'a'}
        b.update([True, 2.0, 2]); c[False] = 'b'
        d = {1: 'x'} | {True: 'y', 1.0: 'z'}
        e, g = collections.OrderedDict([(2, 0), (2.0, 1)]), {1.0, 1}
        out.append([repr(v) for v in (a, b, c, d, e, g, {1} & {True}, {1.0, 5, 6} & {1}, dict.fromkeys([True, 1]))])
        out.append([[*a], [*b], [*c], [*d], [*e], x + 1])
    """,
    "sets_iterate_in_the_order_of_their_history": """
        out.append(x * 2)
        a, b = {1, 2, 3}, {8, 0, 16}
        a.add(9); a.discard(1)
        b.discard(0); b.add(24)
        c = {7, 39, 11} | frozenset([15, 3]); d = set(range(6)) - {0, 1, 2}; d.add(8)
        out.append([repr(v) for v in (a, b, c, d)])
        print(end='')
        out.append([[*a], [*b], [*c], [*d], x + 1])
    """,
    "stop_iteration_value": """
        def gen():
            yield x
            return 7
        g = gen(); next(g)
        try:
            next(g)
        except StopIteration as e:
            out.append((e.value, e.args))
        try:
            next(g)
        except StopIteration as e:
            out.append((e.value, e.args))
        g = gen(); list(g)
        try:
            g.send(None)
        except StopIteration as e:
            out.append(e.value)
        """,
    "stop_iteration_of_an_object": """
        it = Counting(1); next(it)
        try:
            next(it)
        except StopIteration as e:
            out.append(e.value)
        def outer():
            got = yield from Counting(2)
            yield got * x
        out.append(list(outer()))
        """,
    "containers_change_under_iterators": """
        for made in ([n, 1, 2], collections.deque([n, 1, 2]), {n: 1, 7: 2}, {n, 8, 9}):
            it = iter(made)
            out.append(told(lambda: next(it)))
            out.append(told(lambda: made.pop() if not isinstance(made, dict) else made.popitem()))
            out.append(told(lambda: len(list(it))))
            out.append(told(lambda: next(it)))
        """,
    "an_iterator_that_ended_forgets": """
        for made, more in (([n], 'append'), ({n}, 'add'), (collections.deque([n]), 'append')):
            it = iter(made)
            out.append(told(lambda: list(it)))
            getattr(made, more)(9)
            out.append(told(lambda: list(it)))
        """,
    "reversed_follows": """
        held = [n, 1, 2]; it = reversed(held)
        held[0] = x; held.pop()
        out.append(told(lambda: list(it)))
        held = [n, 1, 2]; it = reversed(held)
        held[0] = x; held.append(5); next(it); print(n)
        out.append(told(lambda: list(it)))
        table = {1: n, 2: 3}; it = reversed(table)
        table[4] = 5
        out.append(told(lambda: list(it)))
        """,
    "guards_of_dictionaries_meet_an_iterator": """
        for i in range(2):
            out.append(told(lambda: (seen(box['a']),)))
            out.append(told(lambda: (seen(x * n), seen(box['a']))))
        held = [n, 1, 2]; it = map(str, held); print(end='')
        out.append(told(lambda: [str(q) for q in it]))
        """,
    "values_are_those_of_now": """
        held = {1: n, 2: x}; it = iter(held.values()); more = iter(held.items())
        held[1], held[2] = 7, 8
        out.append((list(it), list(more)))
        """,
    "iterators_cross_changes_that_wait": """
        queue, rows = box.setdefault('queue', collections.deque([0])), box.setdefault('rows', [1])
        queue.appendleft(n); rows += [n, 2]
        it, back, row = map(str, queue), reversed(queue), iter(rows); next(row); next(row)
        print(end='')
        out.append((list(it), list(back), list(row)))
        rows.append(n)
        for r in rows:
            rows[0] = n + 1; print(end='')
            out.append((x * 2, r))
        rows += [7]; it = reversed(rows); next(it); rows.pop(); rows.pop(); print(end='')
        out.append((list(it), list(rows)))
        """,
    "send_to_a_new_generator": """
        g = inner_gen(x, 1)
        out.append(told(lambda: g.send(n)))
        out.append(list(g))
        h = inner_gen(x, 1); h.close()
        out.append(told(lambda: h.send(n)))
        """,
    "globals_in_all_spellings": """
        globals()['G'] = 0
        out.append(x + G)
        globals().update(G=5)
        out.append((G, get_g()))
        set_g(n)
        out.append((globals()['G'], globals().get('G'), 'G' in globals(), 'Y' in globals()))
        globals()['Y'] = x
        out.append([k for k in globals() if k in 'GHYZ'])
        out.append(globals().pop('Y') is x)
        """,
    "globals_deleted_and_stored": """
        del globals()['G']
        out.append(told(lambda: get_g()))
        globals()['G'] = x
        out.append([k for k in globals() if k in 'GH'])
        """,
    "names_of_another_module": """
        out.append(getattr(this, 'Z', None))
        out.append(told(lambda: delattr(this, 'Z')))
        vars(this)['G'] = n
        out.append(x * this.read())
        this.write(x)
        out.append((this.G, vars(this).get('G'), hasattr(this, 'Q')))
        this.Z = 1
        out.append(told(this.forget))
        out.append(hasattr(this, 'Z'))
        this.__dict__.update(Z=x)
        """,
    "cached_with_numbers_that_change": "out.append(x * cached(n)); out.append(cached(x.shape[0], b=n)); out.append(cached((n, 1)[0]))",
    "cached_behind_effects": "log.append('before'); out.append(x * cached(n)); out.append(table(1) is table(1)); table(1).append(n)",
    "cached_that_raises": "out.append(told(lambda: failing(1))); out.append(told(lambda: failing(n)))",
    "cached_property_deleted": "out.append(kept.heavy + n); out.append(kept.__dict__.pop('heavy', None)); out.append(sorted(vars(kept)))",
    "complaints_in_order": """
        def one(p, /, q): return p
        def two(p, *, k=1): return p
        for call in (lambda: one(1, 2, 3, s=4), lambda: one(1, p=2, q=3), lambda: two(1, 2, k=3), lambda: two(1, 2, p=3), lambda: two(z=1, p=2)):
            out.append(told(call))
        try:
            a, b = n
        except TypeError as e:
            out.append(str(e))
        """,
    "errors_with_sizes": """
        try:
            x.view(7, -1)
        except RuntimeError as e:
            out.append(str(e))
        out.append(told(lambda: x.reshape(n + 9, 2)))
        out.append(told(lambda: torch.cat([x, torch.ones(2, 2)])))
        """,
    "evaluated": """
        def inner():
            return n
        out.append(eval('x * n + G'))
        out.append(told(lambda: eval('nothing')))
        out.append(eval(' inner()  # and a remark'))
        out.append(eval('[n for _ in range(2)]'))
        out.append(told(lambda: eval('1 +')))
        """,
    "ends_of_objects": """
        class Ends:
            def __init__(self, a=1):
                self.a = a
            def __del__(self):
                log.append('gone')
        one = Ends()
        y = x * 2
        del one
        log.append('after')
        """,
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("backend", ["interpreted", "aot_eager"])
def test_small_programs(name, backend):
    import textwrap

    body = textwrap.indent(textwrap.dedent(SMALL[name]).strip(), "    ")
    text = f"{language.PRELUDE}\ndef f(x, y, n, items, box):\n    out = []\n{body}\n    return out\n"
    found = fuzzing.compare(text, name="small", calls=3, backend=fuzzing.interpreted if backend == "interpreted" else backend)
    assert found is None, found


def test_the_programs_are_about_everything():
    """Every fragment is drawn, few texts are no Python, and most have something to show."""
    texts = [language.source(language.Program(seed))[len(language.PRELUDE) :] for seed in range(300)]
    for word in (
        "globals()",
        "yield from",
        ".throw(",
        "cached(",
        "nonlocal",
        "except*",
        "ExitStack",
        "match ",
        "*rest",
        "f'{",
        "class Cls",
        "finally",
        ".fromkeys(",
        "eval",
    ):
        assert word == "eval" or sum(word in text for text in texts) > 5, word
    assert sum(map(fuzzing.valid, texts)) > 285
