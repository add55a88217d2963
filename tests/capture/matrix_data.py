"""Constructs over containers and builtins: lists, tuples, dictionaries, sets, deques, ranges, records, iteration functions."""

from .matrix import ONCE, construct

OWNED = ("argument", "local", "attribute", "item", "global", "cell")  # a default would be changed for the next call

# -- lists -------------------------------------------------------------------------------------------------------------

construct(
    "list_methods",
    "list ints",
    "v.append(4)\nv.extend([5, 6])\nv.insert(0, 9)\nv.remove(1)\nlast = v.pop()\nfirst = v.pop(0)\nr = a * last, first, v.index(5), v.count(2), v.copy()",
    sources=OWNED,
    positions=ONCE,
)
construct(
    "list_sort",
    "list ints strings floats",
    "v.sort()\nv.reverse()\nr = a + 1, list(v), sorted(v), sorted(v, reverse=True)",
    sources=OWNED,
)
construct(
    "list_sort_key",
    "ints list",
    "v.sort(key=lambda q: -q)\nr = a + 1, list(v), sorted(v, key=lambda q: q % 2), min(v, key=abs), max(v, default=0)",
    sources=OWNED,
)
construct("list_operators", "list ints", "r = a + 1, v + [4], v * 2, 2 * v, v == [1, 2, 3], v != [1], v < [9], [1, 2] <= v")
construct("list_augmented", "list", "w = v\nw += [4]\nw *= 2\nr = a + 1, w is v, len(v)", sources=OWNED)
construct("list_items", "list", "v[0] = 7\nv[-1] += 2\ndel v[1]\nr = a * v[0], v", sources=OWNED)
construct("list_clear", "list", "n = len(v)\nv.clear()\nr = a * n, v", sources=OWNED)
construct("list_of_tensors", "tensors", "v.append(a)\nv[0] = v[0] + 1\nr = v[0] + v[-1], len(v)", sources=OWNED)
construct("list_constructor", "tuple range set dict str deque", "r = a + 1, sorted(list(v)), list(), list((1, 2))")
construct("list_nested", "nested", "v[1][1]['k'] = 5\nv[1][1]['new'] = a\nr = a * v[1][1]['k']", sources=OWNED)
construct("list_identity", "list", "w = [v, v]\nw[0].append(1)\nr = a + 1, len(w[1]), w[0] is w[1]", sources=OWNED)
construct("list_contains_tensor", "tensor", "items = [v, a]\nr = a + 1, any(q is v for q in items), len(items)")
construct(
    "list_iterator", "list tuple deque range str", "it = iter(v)\nfirst = next(it)\nr = a + 1, first, list(it), next(it, None)"
)
construct(
    "list_subclass", "int", "w = Wrapped([1, 2])\nw.append(v)\nr = a * w.total(), len(w), list(w), w[0], isinstance(w, list)"
)

# -- tuples, named tuples, sizes ---------------------------------------------------------------------------------------

construct(
    "tuple_operations",
    "tuple",
    "r = a * v[0], v[1:], v + (4,), v * 2, v.index(3), v.count(1), v == (1, 2, 3), v < (9,), hash(v) == hash((1, 2, 3)), tuple(q + 1 for q in v), max(v)",
)
construct("tuple_constructor", "list set range dict str", "r = a + 1, tuple(sorted(v)), tuple(), tuple([1])")
construct("tuple_as_key", "tuple", "table = {v: 1, (4, 5): 2}\nr = a * table[v], (4, 5) in table")
construct("tuple_of_tensors", "tensor", "t = (a, v)\nx, y = t\nr = x + y, t[0] is a, len(t)")
construct(
    "namedtuple_use",
    "namedtuple",
    "x, y = v\nr = a * v.x + v.y, v[0], v._replace(x=5), v._fields, v._asdict(), Point(x=a, y=2).x, Point._make([1, 2]), v == (1, 2), len(v), repr(v), isinstance(v, tuple)",
)
construct("namedtuple_typed", "int", "p = Typed(v)\nr = a * p.total(), p.y, Typed(1, y=2), p._field_defaults, p > (1, 2)")
construct(
    "namedtuple_made_inside",
    "int",
    "P = collections.namedtuple('P', ['u', 'w'], defaults=[4])\np = P(v)\nr = a * p.u + p.w, p._fields",
    breaks="a class made by the function itself",
)
construct(
    "size_use",
    "size",
    "r = a + 1, v[0], v.numel(), v[1:], list(v), v + (4,), v == (1, 2, 3), len(v), tuple(v), isinstance(v, tuple), v == torch.Size((1, 2, 3))",
)
construct(
    "shape_use",
    "int",
    "n, m = a.shape\nr = a * (n * m) + a.size(0), a.reshape(m, n), a.new_zeros(a.shape), a.size()[1:], len(a.shape), a.shape[-1] // 2, a.numel() % 4",
)
construct(
    "shape_methods",
    "int",
    "r = a.view(*a.shape[:1], -1), a.expand(v, *a.shape), a.shape == a.size(), a.shape[1:] + (1,), torch.zeros(a.shape[0], 2), [n * 2 for n in a.shape], max(a.shape), sum(a.shape)",
    sizes=1,
)

# -- dictionaries ------------------------------------------------------------------------------------------------------

DICTS = "dict ordereddict defaultdict"
construct(
    "dict_reads",
    DICTS + " counter",
    "r = a * v['p'], v.get('q'), v.get('zz'), v.get('zz', 7), len(v), list(v), list(v.keys()), list(v.values()), list(v.items()), 'p' in v.keys(), 3 in v.values(), ('p', 1) in v.items()",
)
construct(
    "dict_changes",
    DICTS,
    "v['t'] = a\nv['p'] += 4\ndel v['q']\nv.update(u=3)\nv.update({'w': 4}, x=5)\nv.setdefault('y', []).append(1)\ngot = v.pop('s'), v.pop('none', 6)\nr = a * v['p'], got, list(v)",
    sources=OWNED,
    positions=ONCE,
)
construct(
    "dict_clear_popitem",
    DICTS,
    "last = v.popitem()\nw = v.copy()\nv.clear()\nr = a + 1, last, w, len(v), type(w).__name__",
    sources=OWNED,
    positions=ONCE,
)
construct("dict_operators", "dict", "r = a + 1, v | {'z': 9}, v == {'p': 1}, v != {'p': 1}, {'z': 1} | v", sources=OWNED)
construct("dict_in_place_or", DICTS, "v |= {'z': 9}\nr = a * v['z']", sources=OWNED)
construct(
    "dict_iteration",
    DICTS + " counter",
    "r = a + 1\nfor k in v:\n    r = r + v[k]\nfor k, w in v.items():\n    r = r * w\nfor w in v.values():\n    r = r - w",
)
construct(
    "dict_views",
    "dict",
    "k = v.keys()\nr = a * len(k), sorted(k & {'p', 'z'}), sorted(k | {'z'}), sorted(k - {'p'}), list(reversed(v)), k == {'p', 'q', 's'}, list(reversed(v.items()))",
)
construct(
    "dict_constructor",
    "dict namedtuple",
    "r = a + 1, dict(), dict(x=1), dict([('u', 1)]), dict(zip('ab', [1, 2])), dict.fromkeys(['x', 'y'], 0), dict(v) if isinstance(v, dict) else 1",
)
construct("dict_of_tensors", "tensordict", "v['new'] = v['p'] + a\nr = sum(w.sum() for w in v.values()), list(v)", sources=OWNED)
construct("dict_missing", "dict", "try:\n    v['zz']\nexcept KeyError as error:\n    r = a + 1, error.args, str(error)")
construct(
    "dict_keys_of_all_kinds",
    "enum dtype int str none class tuple bool frozenset float",
    "d = {v: a * 2, 'other': 1}\nr = d[v], v in d, len(d), d.get(v) is d[v]",
)
construct(
    "dict_module_keys", "object", "d = {v: 1}\nr = a * d[v], v in d, Thing(2) in d", breaks="keys with a __hash__ of their own"
)
construct(
    "dict_subclass",
    "int",
    "d = Named(x=v)\nd.update(y=2)\nd['z'] = 3\nr = a * d.x + d.y, d['z'], len(d), isinstance(d, dict), sorted(d)",
)
construct(
    "ordereddict_methods",
    "ordereddict",
    "v.move_to_end('p')\nv.move_to_end('s', last=False)\nr = a + 1, list(v), list(reversed(v)), v.popitem(last=False), v == collections.OrderedDict(q=2, p=1)",
    sources=OWNED,
    positions=ONCE,
)
construct(
    "defaultdict_methods",
    "defaultdict",
    "v['new'] += 1\nd = collections.defaultdict(list)\nd['k'].append(a + 1)\nr = d['k'], len(d), v['new'], v.default_factory is int, d.get('no'), 'no' in d",
    sources=OWNED,
)
construct(
    "counter_methods",
    "counter strings",
    "c = collections.Counter(v)\nc['p'] += 2\nc.update(['p', 'zz'])\nr = a * c['p'], c['nothing'], c.most_common(1), sum(c.values()), c.total()",
)
construct("chainmap", "dict", "c = collections.ChainMap({'p': 7}, v)\nr = a * c['p'], c['q'], len(c), sorted(c)")
construct(
    "mappingproxy", "dict", "p = types.MappingProxyType({'x': 4})\nr = a * p['x'], list(p)", breaks="types.MappingProxyType"
)

# -- sets, deques, ranges ----------------------------------------------------------------------------------------------

construct(
    "set_reads",
    "set frozenset",
    "r = a * len(v), 2 in v, sorted(v), sorted(v & {2, 9}), sorted(v | {9}), sorted(v - {1}), sorted(v ^ {1, 8}), v == {1, 2, 3}, v <= {1, 2, 3, 4}, v > {1}, v.issubset({1}), v.isdisjoint({7}), sorted(v.union([5])), sorted(v.intersection([1])), v.issuperset([1])",
)
construct(
    "set_changes",
    "set",
    "v.add(7)\nv.discard(1)\nv.remove(2)\nv.update([8, 9])\nv |= {10}\nv -= {8}\nv &= {3, 7, 9, 10}\nv.difference_update([9])\nr = a * len(v), sorted(v)",
    sources=OWNED,
    positions=ONCE,
)
construct(
    "set_constructor",
    "list tuple range str",
    "r = a + 1, sorted(set(v)), sorted(frozenset(v)), set(), len({*v}), frozenset([1]) == {1}",
)
construct("set_pop_clear_copy", "set", "w = v.copy()\nw.pop()\nn = len(w)\nw.clear()\nr = a * n, w", sources=OWNED)
construct("set_of_kinds", "enum dtype class str none", "s = {v, 1}\nr = a + len(s), v in s, len(s | {v})")
construct(
    "deque_methods",
    "deque",
    "v.append(4)\nv.appendleft(0)\nx = v.popleft()\ny = v.pop()\nv.extend([5])\nv.extendleft([6, 7])\nv.rotate(1)\nr = a * len(v), x, y, list(v), v[0], v.count(5), v.index(6)",
    sources=OWNED,
)
construct("deque_maxlen", "int", "d = collections.deque([1, 2], maxlen=2)\nd.append(v)\nr = a * len(d), list(d), d.maxlen")
construct(
    "range_methods",
    "range",
    "r = a * len(v), v.start, v.stop, v.step, v[1], list(v[::2]), v.index(2), v.count(3), 2 in v, list(reversed(v)), v == range(1, 4), sum(v), list(v)",
)
construct(
    "range_constructor",
    "int",
    "r = a + 1, list(range(v)), list(range(0, 2 * v, 2)), list(range(v, 0, -1)), [a * i for i in range(a.shape[1])], len(range(v))",
    sizes=0,
)
construct("range_of_sizes", "int", "r = [a[i] * i for i in range(a.shape[0])]", sizes=1)

# -- builtins ----------------------------------------------------------------------------------------------------------

construct(
    "zip_enumerate",
    "list tuple range deque",
    "r = a + 1, list(zip(v, 'ab')), list(enumerate(v)), list(enumerate(v, 5)), list(zip(*[(1, 2), (3, 4)])), dict(enumerate(v)), [i for i, q in enumerate(v) if q > 1]",
)
construct(
    "zip_strict",
    "list tuple",
    "r = a + 1, list(zip(v, v, strict=True))\ntry:\n    list(zip(v, [1], strict=True))\nexcept ValueError as error:\n    r = r, str(error)",
)
construct(
    "map_filter",
    "list tuple range deque",
    "r = [a * q for q in map(lambda q: q + 1, v)], list(map(str, v)), list(map(operator.add, v, v)), list(filter(lambda q: q > 1, v)), list(filter(None, [0, 1])), sum(map(int, ['1', '2']))",
)
construct("map_over_tensors", "tensors", "r = list(map(torch.relu, v)), [*map(lambda t: t + a, v)], tuple(map(torch.sum, v))")
construct(
    "sorted_reversed",
    "list tuple ints floats strings set",
    "r = a + 1, sorted(v), sorted(v, reverse=True), sorted(v, key=str), list(reversed(sorted(v)))",
)
construct(
    "any_all", "list empty tuple", "r = a + 1, any(v), all(v), any(q > 2 for q in v), all(q > 0 for q in v), any([]), all([])"
)
construct(
    "min_max_sum",
    "list tuple range ints floats deque",
    "r = a * max(v), min(v), sum(v), sum(v, 10), max(v, key=lambda q: -q), min(*v), max(1, 2, 3), min([], default=4)",
)
construct(
    "min_max_sum_of_sizes", "int", "r = a * max(a.shape), min(a.shape[0], a.shape[1]), sum(a.shape), max(a.shape[0], 2)", sizes=1
)
construct("sum_of_tensors", "tensors", "r = sum(v), sum(v, a), sum(t.sum() for t in v)")
construct(
    "number_functions",
    "int float negative",
    "r = a * abs(v), divmod(v, 2), round(v), pow(v, 2), hash(v) == hash(v), int(v), float(v), round(2.567, 1), bin(5), hex(255), oct(8)",
)
construct(
    "ord_chr_ascii",
    "str",
    "r = a * ord(v[0]), chr(98), ascii(v), len(v), id(v) == id(v)",
    positions=("straight", "call", "with", "closure"),
)
construct(
    "isinstance_checks",
    "int float bool str list tuple dict tensor object derived module none namedtuple dataclass enum",
    "r = a + 1, isinstance(v, int), isinstance(v, (list, tuple)), isinstance(v, torch.Tensor), isinstance(v, Thing), isinstance(v, nn.Module), isinstance(v, (int, (str, dict))), issubclass(type(v), object)",
)
construct(
    "isinstance_abstract",
    "list dict int set tensor function float",
    "r = a + 1, isinstance(v, collections.abc.Iterable), isinstance(v, collections.abc.Mapping), isinstance(v, collections.abc.Callable), isinstance(v, collections.abc.Sequence)",
)
construct(
    "isinstance_number",
    "int float bool str",
    "import numbers\nr = a + 1, isinstance(v, numbers.Number), isinstance(v, numbers.Integral)",
)
construct(
    "hasattr_getattr",
    "object derived module tensor int list namedtuple dataclass function",
    "r = a + 1, hasattr(v, 'n'), getattr(v, 'nothing_at_all', 5) == 5, hasattr(v, '__class__'), hasattr(v, 'shape'), hasattr(v, '__len__')",
)
construct("getattr_name", "object slotted", "name = 'n'\nr = a * getattr(v, name), getattr(v, 'zz', a) is a")
construct(
    "setattr_delattr",
    "object dataclass module namespace",
    "setattr(v, 'fresh', a * 2)\nr = v.fresh + 1, hasattr(v, 'fresh')\ndelattr(v, 'fresh')\nr = r, hasattr(v, 'fresh')",
    sources=OWNED,
)
construct(
    "type_function",
    "int list tensor object module enum none namedtuple",
    "r = a + 1, type(v).__name__, type(v) is type(v), type(v) == int, v.__class__ is type(v), type(type(v)).__name__",
)
construct(
    "type_constructs",
    "int",
    "T = type('T', (Thing,), {'k': 4})\nt = T(v)\nr = a * t.k + t.n, t.go(a), T.__name__, isinstance(t, Thing)",
    breaks="a class made by the function itself",
)
construct("callable_check", "function object callable int class module", "r = a + 1, callable(v), callable(len), callable(3)")
construct("vars_dir", "object namespace dataclass", "r = a + 1, sorted(vars(v)), vars(v) == v.__dict__, len(v.__dict__)")
construct(
    "iter_sentinel",
    "int",
    "state = [0]\ndef step_up():\n    state[0] += 1\n    return state[0]\nr = a + 1, list(iter(step_up, v + 1))",
)
construct(
    "id_compare", "object tensor", "w = v\nr = a + 1, id(v) == id(w), id(v) != id(a)", positions=("straight", "loop", "call")
)
construct("slice_builtin", "int", "s = slice(None, v)\nr = a[s], [1, 2, 3, 4][s], s.stop", sizes=1)
construct("print_break", "int", "b = a + 1\nprint('hello', v)\nr = b * 2", breaks="print")
construct("object_builtin", "int", "o = object()\nr = a + v, o is o, o == object()")
construct(
    "super_builtin",
    "int",
    "class B(Thing):\n    def __init__(self, n):\n        super().__init__(n + 1)\n    def go(self, t):\n        return super().go(t) + super(B, self).count\nb = B(v)\nr = b.go(a), b.n",
)
