"""Constructs over user classes, dataclasses, and the standard library: itertools, operator, math, copy, random, typing."""

from .matrix import construct

OWNED = ("argument", "local", "attribute", "item", "global", "cell")

# -- objects -----------------------------------------------------------------------------------------------------------

construct("attributes", "object derived slotted callable dataclass", "n = v.n if hasattr(v, 'n') else v.x\nr = a * n")
construct("attribute_stores", "object derived slotted", "v.n += 1\nv.other = a\nr = a * v.n + v.other", sources=OWNED)
construct("attribute_deletes", "object", "v.fresh = 1\ndel v.fresh\nr = a * v.n, hasattr(v, 'fresh')", sources=OWNED)
construct(
    "methods", "object derived", "r = v.go(a), Thing.go(v, a), v.static(1), v.make(2).n, type(v).make(2).n, v.count, Thing.count"
)
construct("properties", "object derived", "r = a * v.doubled, v.lazy, v.lazy, v.upper", sources=OWNED)
construct("property_setter", "object", "v.doubled = 10\nv.upper = 3\nr = a * v.n, v.upper", sources=OWNED)
construct(
    "property_raises",
    "int",
    "class P:\n    @property\n    def q(self):\n        raise ValueError('in property')\ntry:\n    P().q\nexcept ValueError as error:\n    r = a * v, str(error)",
)
construct(
    "property_deleter",
    "int",
    "class P:\n    @property\n    def q(self):\n        return self._q\n    @q.deleter\n    def q(self):\n        self._q = 0\np = P()\np._q = v\ndel p.q\nr = a + p.q",
)
construct("construction", "int float tensor", "t = Thing(v)\nr = t.go(a), t, t.n")
construct(
    "construction_chain", "int", "d = Derived(v)\nr = d.go(a), d.extra, d.unknown, isinstance(d, Thing), type(d).__name__, d"
)
construct(
    "construction_new",
    "int",
    "class S:\n    made = 0\n    def __new__(cls, *args):\n        self = super().__new__(cls)\n        self.tag = len(args)\n        return self\n    def __init__(self, n):\n        self.n = n\ns = S(v)\nr = a * s.n + s.tag",
)
construct(
    "construction_new_of_outside_class",
    "int",
    "s = Single(v)\nr = a * s.n + s.tag, s",
    setup="""
    class Single:
        def __new__(cls, *args):
            self = object.__new__(cls)
            self.tag = len(args)
            return self
        def __init__(self, n):
            self.n = n
    """,
)
construct(
    "construction_new_returns_other",
    "int",
    "o = Other(v)\nr = a * o",
    setup="""
    class Other:
        def __new__(cls, n):
            return n + 1
    """,
)
construct(
    "class_statement",
    "int",
    "class C:\n    k = 4\n    def go(self, t):\n        return t * self.k + v\nr = C().go(a)",
    classes=True,
    breaks="a class made by the function itself",
)
construct(
    "class_body",
    "int",
    "class C:\n    k = 4\n    def __init__(self, n):\n        self.n = n\n    def go(self, t):\n        return t * self.n * self.k\nc = C(v)\nr = c.go(a), C.k, C.__name__",
)
construct("class_body_inherits", "int", "class C(Thing):\n    def go(self, t):\n        return super().go(t) + 4\nr = C(v).go(a)")
construct("class_attribute_store", "int", "class C:\n    k = 4\nC.k = v\nr = a * C.k + C().k")
construct(
    "metaclass",
    "int",
    "m = Registered(v)\nr = a * m.n, Registered.tag",
    setup="""
    class Meta(type):
        def __new__(mcls, name, bases, body):
            cls = super().__new__(mcls, name, bases, body)
            cls.tag = name.lower()
            return cls
    class Registered(metaclass=Meta):
        def __init__(self, n):
            self.n = n
    """,
)
construct(
    "metaclass_call",
    "int",
    "m = Once(v)\nr = a * m.n, m is Once(v)",
    setup="""
    class OnceMeta(type):
        def __call__(cls, *args):
            made = super().__call__(*args)
            made.n += 1
            return made
    class Once(metaclass=OnceMeta):
        def __init__(self, n):
            self.n = n
        def __eq__(self, other):
            return False
    """,
)
construct(
    "metaclass_members",
    "int",
    "r = a * len(Meta2), [k for k in Meta2], 1 in Meta2, Meta2['q'], Meta2.prop",
    setup="""
    class M(type):
        def __len__(cls):
            return 3
        def __iter__(cls):
            return iter([1, 2])
        def __contains__(cls, k):
            return k == 1
        def __getitem__(cls, k):
            return k * 2
        @property
        def prop(cls):
            return cls.__name__
    class Meta2(metaclass=M):
        pass
    """,
)
construct(
    "init_subclass",
    "int",
    "r = a * Leaf.level, Leaf.__name__",
    setup="""
    class Root:
        def __init_subclass__(cls, level=1, **rest):
            super().__init_subclass__(**rest)
            cls.level = level
    class Leaf(Root, level=5):
        pass
    """,
)
construct(
    "init_subclass_inside",
    "int",
    "class Leaf(Root, level=3):\n    pass\nr = a * Leaf.level",
    setup="""
    class Root:
        def __init_subclass__(cls, level=1, **rest):
            super().__init_subclass__(**rest)
            cls.level = level
    """,
)
construct("descriptors", "object", "r = a * v.upper\nv.upper = 5\nr = r, v.upper, type(v).upper.name", sources=OWNED)
construct(
    "non_data_descriptor",
    "int",
    "class Fixed:\n    def __get__(self, owner, cls):\n        return 6 if owner is None else owner.n\nclass H:\n    f = Fixed()\n    def __init__(self):\n        self.n = 9\nh = H()\nr = a * h.f, H.f, v",
)
construct("getattr_hook", "derived", "r = a + 1, v.unknown_name, getattr(v, 'other'), v.n", sources=OWNED)
construct(
    "getattr_hook_made_here",
    "int",
    "class G:\n    def __init__(self, d):\n        self.d = d\n    def __getattr__(self, name):\n        try:\n            return self.d[name]\n        except KeyError:\n            raise AttributeError(name) from None\ng = G({'x': v})\nr = a * g.x, hasattr(g, 'y'), getattr(g, 'y', 3)",
)
construct(
    "getattribute_hook",
    "int",
    "class G:\n    def __init__(self):\n        self.n = 1\n    def __getattribute__(self, name):\n        if name == 'zz':\n            return 5\n        return object.__getattribute__(self, name)\ng = G()\nr = a * g.zz + g.n",
)
construct(
    "setattr_hook",
    "int",
    "class G:\n    def __setattr__(self, name, value):\n        super().__setattr__(name, value + 1)\ng = G()\ng.n = v\nr = a * g.n, vars(g)",
)
construct(
    "setattr_hook_object",
    "int",
    "class G:\n    def __setattr__(self, name, value):\n        self.__dict__[name] = value * 2\n    def __delattr__(self, name):\n        object.__delattr__(self, name)\ng = G()\ng.n = v\nr = a * g.n\ndel g.n\nr = r, hasattr(g, 'n')",
)
construct("call_object", "callable object", "r = v(a), v.__call__(a)")
construct(
    "dunder_arithmetic",
    "object derived",
    "r = (v + v).n, (v + 1).n, 5 + v, v * a, (-v).n, v @ a, v == Thing(2), v != Thing(2), v < Thing(3), v > Thing(1)",
    sources=OWNED,
)
construct("dunder_with_tensor", "object", "r = v * a, a + v.n")
construct(
    "dunder_not_implemented",
    "object",
    "try:\n    v - 'x'\nexcept TypeError as error:\n    r = a + 1, str(error), v * 'x'",
    breaks="an error of an operator that goes on to sequence repetition",
)
construct("dunder_container", "object", "r = a * len(v), v[1], 2 in v, 3 in v, bool(v)\nv['k'] = a\nr = r, v.k", sources=OWNED)
construct(
    "dunder_conversions",
    "object",
    "r = a * int(v), float(v), str(v), repr(v), f'{v:x}', hash(v) == hash(2), [1, 2, 3][v], range(5)[v], operator.index(v)",
)
construct(
    "dunder_reflected",
    "int",
    "class P:\n    def __rsub__(self, other):\n        return other - 1\n    def __rmatmul__(self, other):\n        return other * 2\nr = v - P(), a - P(), a @ P()",
)
construct(
    "dunder_eq_hash",
    "int",
    "k = {Thing(v): 'x', Thing(9): 'y'}\nr = a + len(k), k[Thing(v)], Thing(9) in k, Thing(4) in [Thing(4)], [Thing(1)] == [Thing(1)]",
    breaks="keys with a __hash__ of their own",
)
construct(
    "dunder_iter",
    "int",
    "r = [a * q for q in Reiterable(v)], list(Reiterable(2)), [*Reiterable(2)], dict(zip(Reiterable(2), 'ab')), tuple(Reiterable(1))",
)
construct(
    "dunder_enter_exit",
    "object",
    "class E:\n    def __init__(self, thing):\n        self.thing = thing\n    def __enter__(self):\n        return self.thing\n    def __exit__(self, *error):\n        self.thing.n += 1\nwith E(v) as e:\n    r = a * e.n\nr = r, v.n",
    sources=OWNED,
)
construct("dunder_contains_fallback", "int", "r = a + 1, 1 in Reiterable(v), 9 in Reiterable(2)")
construct("dunder_bool_len", "int", "class L:\n    def __len__(self):\n        return 0\nr = a * 2 if L() else a + v, not L()")
construct(
    "dunder_missing",
    "int",
    "class D(dict):\n    def __missing__(self, key):\n        return key * 2\nd = D()\nd['x'] = 1\nr = a * d[v], d['x'], d.get('y')",
)
construct(
    "total_ordering",
    "int",
    "@functools.total_ordering\nclass O:\n    def __init__(self, n):\n        self.n = n\n    def __eq__(self, o):\n        return self.n == o.n\n    def __lt__(self, o):\n        return self.n < o.n\nr = a + 1, O(v) >= O(2), O(1) <= O(2), sorted([O(2), O(1)])[0].n",
)
construct(
    "slots",
    "slotted",
    "v.n += 1\nv.other = 5\nr = a * v.n, hasattr(v, 'other'), hasattr(v, '__dict__')\ns = Slotted(4)\nr = r, s.n",
    sources=OWNED,
)
construct(
    "inheritance",
    "derived",
    "r = v.go(a), isinstance(v, Thing), issubclass(Derived, Thing), Derived.__mro__[1] is Thing, super(Derived, v).go(a), Derived.__bases__[0].__name__",
    sources=OWNED,
)
construct(
    "multiple_inheritance",
    "int",
    "class A:\n    def hi(self):\n        return ['A']\nclass B(A):\n    def hi(self):\n        return ['B'] + super().hi()\nclass C(A):\n    def hi(self):\n        return ['C'] + super().hi()\nclass D(B, C):\n    pass\nr = a * v, D().hi(), [c.__name__ for c in D.__mro__]",
)
construct(
    "abstract_class",
    "int",
    "class Base(abc.ABC):\n    @abc.abstractmethod\n    def go(self, t): ...\nclass Real(Base):\n    def go(self, t):\n        return t * 4\ntry:\n    Base()\nexcept TypeError as error:\n    r = Real().go(a), type(error).__name__",
    setup="import abc",
)
construct(
    "object_in_containers",
    "object",
    "items = [v, Thing(3)]\nd = {'k': v}\nd['k'].n += 1\nr = a * items[0].n, [t.n for t in items], d['k'] is v",
    sources=OWNED,
)
construct("object_returned", "object", "w = Thing(a * 2)\nw.friend = v\nr = w, w.friend is v")
construct("object_cycle", "int", "p = Thing(v)\np.me = p\nq = [1]\nq.append(q)\nr = a * p.me.me.n, len(q[1])")
construct(
    "namespace",
    "namespace int",
    "ns = types.SimpleNamespace(x=3, y=a)\nns.z = ns.x + 1\nr = a * ns.z + ns.y, vars(ns)['x'], hasattr(ns, 'q')",
)
construct("class_as_value", "class", "t = v(4)\nr = t.go(a), v.count, v.__name__, v is Thing, v.static(1), {v: 1}[Thing]")
construct("static_and_class_methods", "staticmethod classmethod", "r = v(a) if v is Thing.static else v(a)")
construct(
    "class_decorated",
    "int",
    "r = a * Tagged().tagged + v",
    setup="""
    def tag(cls):
        cls.tagged = 5
        return cls
    @tag
    class Tagged:
        pass
    """,
)
construct(
    "class_counter",
    "int",
    "class C:\n    made = 0\n    def __init__(self):\n        C.made += 1\nC(); C()\nr = a * C.made + v",
    classes=True,
    breaks="a class made by the function itself",
)
construct(
    "private_names",
    "int",
    "class C:\n    def __init__(self, n):\n        self.__hidden = n\n    def get(self):\n        return self.__hidden\nr = a * C(v).get()",
)
construct(
    "property_function",
    "int",
    "class C:\n    def __init__(self):\n        self._n = 3\n    n = property(lambda self: self._n, lambda self, x: setattr(self, '_n', x))\nc = C()\nc.n = 7\nr = a * c.n",
)
construct(
    "cached_property_here",
    "int",
    "class C:\n    hits = 0\n    @functools.cached_property\n    def big(self):\n        self.hits += 1\n        return 100\nc = C()\nr = a * c.big + c.big, c.hits",
)
construct(
    "singledispatch",
    "int str",
    "r = a * shown(v), shown([1])",
    setup="""
    @functools.singledispatch
    def shown(x):
        return 1
    @shown.register
    def _(x: str):
        return 2
    @shown.register(int)
    def _(x):
        return 3
    """,
)
construct(
    "dataclass_use",
    "dataclass",
    "v.y += 1\nv.items.append(a)\nr = a * v.x + v.total(), v == Data(1, 3), dataclasses.is_dataclass(v)",
    sources=OWNED,
)
construct(
    "dataclass_functions",
    "dataclass frozendata",
    "r = a * v.x, [f.name for f in dataclasses.fields(v)], dataclasses.replace(v, x=5).x, dataclasses.asdict(v), dataclasses.astuple(v), repr(v)",
)
construct(
    "dataclass_made",
    "int",
    "d = Data(v)\ne = Data(x=1, y=2, items=[a])\nr = d.total() * a, e.items[0] + 1, d, d != e, Data(1, 2) == Data(1, 2)",
)
construct(
    "dataclass_order",
    "int",
    "o = Ordered(v)\nr = a * o.double, Ordered(1) < Ordered(2), sorted([Ordered(3), Ordered(1)])[0].x, o",
)
construct(
    "dataclass_frozen",
    "frozendata",
    "try:\n    v.x = 3\nexcept dataclasses.FrozenInstanceError as error:\n    r = a * v.x, str(error)\nr = r, hash(v) == hash(Frozen(1, 2)), Frozen(a, 2).x, {v: 1}[Frozen(1, 2)]",
    breaks="keys with a __hash__ of their own",
)
construct(
    "dataclass_inside",
    "int",
    "@dataclasses.dataclass\nclass C:\n    n: int\n    m: int = 4\nr = a * C(v).n + C(v).m",
    classes=True,
    breaks="a class made by the function itself",
    positions=("straight", "loop", "call"),
)
construct(
    "dict_access",
    "object",
    "v.__dict__['fresh'] = 5\nd = v.__dict__\nr = a * v.fresh, 'n' in d, d['n'], d.get('zz'), sorted(d)\nv.__dict__.update(n=7)\nr = r, v.n",
    sources=OWNED,
)
construct(
    "weakref",
    "object",
    "import weakref\nw = weakref.ref(v)\nr = a + 1, w() is v",
    sources=("argument", "attribute", "item", "global", "cell"),
    breaks="weak references",
)

# -- the standard library ----------------------------------------------------------------------------------------------

construct(
    "itertools_basic",
    "list tuple range deque",
    "r = a + 1, list(itertools.chain(v, [9])), list(itertools.islice(v, 1, 3)), list(itertools.islice(itertools.count(3, 2), 2)), list(itertools.repeat(0, 2)), list(itertools.accumulate(v)), list(itertools.chain.from_iterable([v, v])), list(itertools.islice(itertools.cycle(v), 5))",
)
construct(
    "itertools_combinatoric",
    "list tuple",
    "r = a + 1, list(itertools.product(v, 'ab')), list(itertools.combinations(v, 2)), list(itertools.permutations(v, 2)), list(itertools.combinations_with_replacement(v, 2)), list(itertools.product([0, 1], repeat=2))",
)
construct(
    "itertools_selecting",
    "list tuple",
    "r = a + 1, list(itertools.takewhile(lambda q: q < 3, v)), list(itertools.dropwhile(lambda q: q < 2, v)), list(itertools.filterfalse(lambda q: q == 2, v)), list(itertools.compress(v, [1, 0, 1])), list(itertools.starmap(operator.mul, [(2, 3)])), list(itertools.zip_longest(v, [1], fillvalue=0)), list(itertools.pairwise(v))",
)
construct(
    "itertools_groupby",
    "list ints",
    "r = a + 1, [(k, list(g)) for k, g in itertools.groupby(v, lambda q: q % 2)], [k for k, g in itertools.groupby('aab')]",
)
construct("itertools_tee", "list", "p, q = itertools.tee(v)\nr = a + 1, list(p), list(q)")
construct(
    "itertools_tensors",
    "tensors",
    "r = list(itertools.chain(v, [a])), [p + q for p, q in itertools.product(v, v)], list(itertools.accumulate(v)), [p * q for p, q in itertools.pairwise(v)]",
)
construct("itertools_count_zip", "list", "r = a\nfor i, q in zip(itertools.count(1), v):\n    r = r * i + q")
construct(
    "operator_module",
    "int float",
    "r = operator.add(a, v), operator.mul(v, 2), operator.neg(v), operator.eq(v, 3), operator.truediv(v, 2), operator.and_(1, 3), operator.truth(v), operator.not_(v), operator.pow(v, 2)",
)
construct(
    "operator_getters",
    "object dataclass",
    "name = 'n' if hasattr(v, 'n') else 'x'\nr = a * operator.attrgetter(name)(v), operator.itemgetter(1)([1, 2]), operator.itemgetter(0, 2)('abc'), operator.methodcaller('upper')('q'), operator.attrgetter('shape')(a)",
)
construct(
    "operator_items",
    "list dict",
    "k = 0 if isinstance(v, list) else 'p'\noperator.setitem(v, k, 9)\nr = a * operator.getitem(v, k), operator.contains(v, k), operator.length_hint(v), operator.concat([1], [2])",
    sources=OWNED,
)
construct(
    "operator_in_place",
    "list int",
    "w = operator.iadd(v, [4]) if isinstance(v, list) else operator.iadd(v, 4)\nr = a + 1, w",
    sources=OWNED,
)
construct(
    "math_module",
    "int float",
    "r = a * math.sqrt(v), math.floor(v), math.ceil(v), math.log(v), math.exp(1), math.pi, math.prod([1, 2, 3]), math.gcd(4, 6), math.isclose(v, 3.0), math.log2(8), math.pow(v, 2), math.isnan(v), math.inf, math.sin(v), math.hypot(3, 4), math.fsum([.1, .2]), math.trunc(v), math.copysign(1, -v), math.comb(4, 2), math.degrees(v)",
    sizes=0,
)
construct(
    "math_of_sizes",
    "int",
    "r = a / math.sqrt(a.shape[-1]), math.ceil(a.shape[0] / 2), math.prod(a.shape), math.floor(a.shape[0] * 0.5)",
    sizes=1,
)
construct(
    "copy_module",
    "list dict object tuple dataclass set deque",
    "w = copy.copy(v)\nu = copy.deepcopy(v)\nr = a + 1, w, u, w is v, u is v",
    sources=OWNED,
)
construct(
    "copy_nested",
    "nested tensors tensordict",
    "w = copy.copy(v)\nu = copy.deepcopy(v)\nr = a + 1, w, u, len(u)",
    sources=OWNED,
    ops=-1,
)
construct("copy_tensor", "tensor", "r = copy.deepcopy(v) + a", ops=-1)
construct(
    "copy_tensor_part",
    "tensor",
    "r = a + copy.copy(v), copy.deepcopy(v[0])",
    breaks="a second tensor over the same memory, a deep copy of a part",
    ops=None,
)
construct(
    "random_module",
    "int list",
    "g = random.Random(5)\nr = a * g.randint(0, 9), g.random() < 1",
    breaks="random numbers of Python",
)
construct(
    "random_global",
    "int",
    "random.seed(v)\nr = a * random.random(), random.randint(0, 9), random.choice([1, 2, 3]), random.uniform(0, 1)",
    breaks="random numbers of Python",
)
construct(
    "random_shuffle",
    "list",
    "random.seed(1)\nw = list(v)\nrandom.shuffle(w)\nr = a + 1, w, random.sample(w, 2)",
    breaks="random numbers of Python",
)
construct(
    "typing_module",
    "int list tensor",
    "T = typing.TypeVar('T')\nx: typing.Optional[int] = None\nr = a + 1, typing.cast(int, v) is v, typing.TYPE_CHECKING, typing.get_origin(typing.List[int]) is list, typing.Any is typing.Any, typing.get_args(dict[str, int])",
    breaks="a type variable looks at its frame",
)
construct(
    "typing_protocol",
    "int",
    "class P(typing.Protocol):\n    def go(self): ...\nclass G(typing.Generic[typing.TypeVar('T')]):\n    def __init__(self, n):\n        self.n = n\nr = a * G[int](v).n",
    positions=("straight", "call", "with"),
)
construct(
    "typing_generic_outside",
    "int",
    "b = Box[int](v)\nr = a * b.n, Box(4).n, isinstance(b, Box)",
    setup="""
    T = typing.TypeVar('T')
    class Box(typing.Generic[T]):
        def __init__(self, n: T):
            self.n = n
    """,
)
construct(
    "typing_named_dict",
    "int",
    "m: Movie = Movie(name='x', year=v)\nr = a * m['year'], m",
    setup="""
    class Movie(typing.TypedDict):
        name: str
        year: int
    """,
)
construct(
    "inspect_signature",
    "function",
    "import inspect\nr = a + 1, list(inspect.signature(v).parameters), inspect.isfunction(v), inspect.isclass(Thing)",
)
construct(
    "string_module",
    "str",
    "import string, re, textwrap\nr = a + 1, string.ascii_lowercase[:3], re.match('a(.)', v).group(1), re.sub('b', 'x', v), re.compile('c').search(v).start(), textwrap.dedent(' x')",
)
construct(
    "heapq_bisect",
    "ints",
    "import heapq, bisect\nh = list(v)\nheapq.heapify(h)\nheapq.heappush(h, 0)\nr = a * heapq.heappop(h), bisect.bisect([1, 2, 3], 2), heapq.nlargest(2, v), heapq.nsmallest(1, v)",
)
construct(
    "functools_more",
    "int",
    "class C:\n    def base(self, n, t):\n        return t * n\n    by = functools.partialmethod(base, 4)\nr = C().by(a) + v, functools.cmp_to_key(lambda p, q: q - p)(3) is not None, sorted([1, 3, 2], key=functools.cmp_to_key(lambda p, q: q - p))",
)
construct(
    "os_and_sys",
    "int",
    "import os, sys\nr = a * v, os.path.join('x', 'y'), sys.version_info >= (3, 11), sys.maxsize > 0, os.environ.get('NOT_SET_ANYWHERE', 'd'), os.path.basename('x/y')",
)
construct("warnings_and_logging", "int", "import warnings, logging\nlogging.getLogger('q').debug('x %s', v)\nr = a + v")
construct("time_calls", "int", "import time\nt0 = time.perf_counter()\nr = a + v, time.perf_counter() >= t0", breaks="the clock")
construct("json_module", "dict list", "import json\nr = a + 1, json.dumps(v), json.loads('[1, 2]')", breaks="json's encoder in C")
