// Relations between sizes: a stack machine over int64 with overflow checks.
#include "tree.h"

namespace guards {

enum Opcode : int64_t { PushConst, PushSymbol, Add, Mul, FloorDiv, Mod, Max, Min, Eq, Ne, Lt, Le, opcode_count };
constexpr int max_depth = 64;

// Python's floor division and remainder; the quotient of the smallest number by -1 does not fit.
static bool floor_divide(int64_t a, int64_t b, int64_t& out) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    out = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
    return true;
}

static bool modulo(int64_t a, int64_t b, int64_t& out) {
    if (b == 0) return false;
    int64_t rest = b == -1 ? 0 : a % b;
    out = rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    return true;
}

static bool apply(int64_t opcode, int64_t a, int64_t b, int64_t& out) {
    switch (opcode) {
        case Add: return !__builtin_add_overflow(a, b, &out);
        case Mul: return !__builtin_mul_overflow(a, b, &out);
        case FloorDiv: return floor_divide(a, b, out);
        case Mod: return modulo(a, b, out);
        case Max: out = a > b ? a : b; return true;
        case Min: out = a < b ? a : b; return true;
        case Eq: out = a == b; return true;
        case Ne: out = a != b; return true;
        case Lt: out = a < b; return true;
        case Le: out = a <= b; return true;
    }
    return false;
}

static bool compute(const std::vector<int64_t>& code, const int64_t* symbols, int64_t& out) {
    int64_t stack[max_depth];
    int depth = 0;
    for (size_t i = 0; i < code.size(); i++) {
        if (code[i] == PushConst) { stack[depth++] = code[++i]; continue; }
        if (code[i] == PushSymbol) { stack[depth++] = symbols[code[++i]]; continue; }
        depth--;
        if (!apply(code[i], stack[depth - 1], stack[depth], stack[depth - 1])) return false;
    }
    out = stack[0];
    return true;
}

bool holds(const Relation& relation, const int64_t* symbols, Fetched& fetched) {
    int64_t found;
    if (!compute(relation.code, symbols, found)) return false;
    if (!relation.table) return found != 0;
    Ref key(PyLong_FromLongLong(found));
    return key && has_key(fetched[relation.table->fetch], key.get()) == relation.there;
}

const char* invalid_code(const std::vector<int64_t>& code, int symbols) {
    int depth = 0;
    for (size_t i = 0; i < code.size(); i++) {
        if (code[i] < 0 || code[i] >= opcode_count) return "unknown opcode";
        if (code[i] <= PushSymbol) {
            if (i + 1 >= code.size()) return "operand missing";
            if (code[i] == PushSymbol && (code[i + 1] < 0 || code[i + 1] >= symbols)) return "symbol without a binding";
            i++;
            if (++depth > max_depth) return "stack too deep";
        } else if (--depth < 1) {
            return "too few operands";
        }
    }
    return depth == 1 ? nullptr : "must leave exactly one value";
}

}  // namespace guards
