"""What a kernel's SPIR-V declares for its host: push constants, specialization constants, sizes of its workgroup.

Sizes that depend on specialization constants are given as C++ expressions of them, made from the module's own.
"""

from dataclasses import dataclass

from spirv import Error, parse, text_of

OP_NAME, OP_MEMBER_NAME, OP_EXECUTION_MODE, OP_EXECUTION_MODE_ID = 5, 6, 16, 331
OP_TYPE_BOOL, OP_TYPE_INT, OP_TYPE_FLOAT, OP_TYPE_VECTOR, OP_TYPE_ARRAY = 20, 21, 22, 23, 28
OP_TYPE_STRUCT, OP_TYPE_POINTER = 30, 32
OP_CONSTANT, OP_SPEC_TRUE, OP_SPEC_FALSE, OP_SPEC_CONSTANT, OP_SPEC_CONSTANT_OP = 43, 48, 49, 50, 52
OP_FUNCTION, OP_VARIABLE, OP_DECORATE, OP_MEMBER_DECORATE = 54, 59, 71, 72
MODE_LOCAL_SIZE, MODE_LOCAL_SIZE_ID = 17, 38
SPEC_ID, OFFSET = 1, 35
WORKGROUP, PUSH_CONSTANT = 4, 9
TYPES = (OP_TYPE_BOOL, OP_TYPE_INT, OP_TYPE_FLOAT, OP_TYPE_VECTOR, OP_TYPE_ARRAY, OP_TYPE_STRUCT, OP_TYPE_POINTER)
CONSTANTS = (OP_CONSTANT, OP_SPEC_TRUE, OP_SPEC_FALSE, OP_SPEC_CONSTANT, OP_SPEC_CONSTANT_OP)

# Of OpSpecConstantOp, on unsigned numbers and on truth values.
INFIX = {
    128: "+", 130: "-", 132: "*", 134: "/", 137: "%", 164: "==", 165: "!=", 166: "||", 167: "&&", 170: "==", 171: "!=",
    172: ">", 174: ">=", 176: "<", 178: "<=", 194: ">>", 196: "<<", 197: "|", 198: "^", 199: "&",
}  # fmt: skip
LOGICAL_NOT, SELECT = 168, 169

C_TYPES = {
    (OP_TYPE_INT, 32, 0): "uint32_t",
    (OP_TYPE_INT, 32, 1): "int32_t",
    (OP_TYPE_INT, 64, 0): "uint64_t",
    (OP_TYPE_INT, 64, 1): "int64_t",
    (OP_TYPE_FLOAT, 32): "float",
}
C_SIZES = {"uint32_t": 4, "int32_t": 4, "uint64_t": 8, "int64_t": 8, "float": 4}


@dataclass(frozen=True)
class Member:
    name: str
    type: object  # the name of a C++ type, or a Struct
    count: int  # of an array; 0: none
    offset: int


@dataclass(frozen=True)
class Struct:
    name: str
    members: tuple

    def alignment(self):
        return max(alignment_of(member.type) for member in self.members)

    def size(self):
        """In C++, which ends a struct at a multiple of its alignment."""
        last = self.members[-1]
        end = last.offset + size_of(last.type) * max(last.count, 1)
        return -(-end // self.alignment()) * self.alignment()


def alignment_of(kind):
    return kind.alignment() if isinstance(kind, Struct) else C_SIZES[kind]


def size_of(kind):
    return kind.size() if isinstance(kind, Struct) else C_SIZES[kind]


@dataclass(frozen=True)
class Constant:
    name: str  # as GLSL has it
    type: str

    def __str__(self):
        return f"{self.type} {self.name}"


class Module:
    """The declarations of a module; function bodies are not read."""

    def __init__(self, data):
        self.names, self.member_names, self.spec_ids, self.offsets = {}, {}, {}, {}
        self.types, self.values, self.variables = {}, {}, []
        self.local_size, self.local_size_ids = None, None
        for op, a in parse(data, until=OP_FUNCTION)[1]:
            self.take(op, a)

    def take(self, op, a):
        if op == OP_NAME:
            self.names[a[0]] = text_of(a[1:])
        elif op == OP_MEMBER_NAME:
            self.member_names[a[0], a[1]] = text_of(a[2:])
        elif op == OP_DECORATE and a[1] == SPEC_ID:
            self.spec_ids[a[0]] = a[2]
        elif op == OP_MEMBER_DECORATE and a[2] == OFFSET:
            self.offsets[a[0], a[1]] = a[3]
        elif op == OP_EXECUTION_MODE and a[1] == MODE_LOCAL_SIZE:
            self.local_size = a[2:5]
        elif op == OP_EXECUTION_MODE_ID and a[1] == MODE_LOCAL_SIZE_ID:
            self.local_size_ids = a[2:5]
        elif op in TYPES:
            self.types[a[0]] = (op, *a[1:])
        elif op in CONSTANTS:
            self.values[a[1]] = (op, a[0], a[2:])
        elif op == OP_VARIABLE:
            self.variables.append((a[0], a[2]))

    def of_storage(self, storage):
        """The types of the variables there."""
        return [self.types[pointer][2] for pointer, where in self.variables if where == storage]

    # Push constants

    def push_constants(self):
        blocks = self.of_storage(PUSH_CONSTANT)
        if len(blocks) != 1:
            raise Error(f"{len(blocks)} blocks of push constants, and a kernel has one")
        return self.struct(blocks[0])

    def struct(self, number):
        name = self.names.get(number)
        members = []
        for i, kind in enumerate(self.types[number][1:]):
            member = self.member_names.get((number, i))
            if not name or not member:
                raise Error("the push constants have no names: the module was stripped")
            count = 0
            if self.types[kind][0] == OP_TYPE_ARRAY:
                kind, length = self.types[kind][1:]
                count = self.values[length][2][0]
            what = f"{name}.{member}"
            members.append(Member(member, self.c_type(kind, what), count, self.offsets[number, i]))
            check_offset(what, members)
        return Struct(name, tuple(members))

    def c_type(self, number, what):
        kind = self.types[number]
        if kind[0] == OP_TYPE_STRUCT:
            return self.struct(number)
        if kind not in C_TYPES:
            raise Error(f"{what} is of a type that is not known here: give numbers of 32 or 64 bits, structs or arrays")
        return C_TYPES[kind]

    # Specialization constants

    def constants(self):
        """{id: Constant}, with ids 0, 1, 2, ..."""
        found = {}
        for number, spec_id in self.spec_ids.items():
            op, kind, _ = self.values[number]
            name = self.names.get(number)
            if name is None:  # the module's own twin of one, for the size of the workgroup
                continue
            c_type = "bool" if op in (OP_SPEC_TRUE, OP_SPEC_FALSE) else C_TYPES.get(self.types[kind])
            if c_type not in ("bool", "uint32_t"):
                raise Error(f"specialization constant {spec_id} ({name}) is neither uint nor bool")
            found[spec_id] = Constant(name, c_type)
        for spec_id in range(max(self.spec_ids.values(), default=-1) + 1):
            if spec_id not in found:
                raise Error(f"there is no specialization constant {spec_id}: count ids from 0, without gaps")
        return found

    # Sizes, as expressions of `c`, whose members are called as `member_of` says of an id

    def expression(self, number, member_of):
        op, kind, a = self.values[number]
        if number in self.spec_ids:
            return f"c.{member_of(self.spec_ids[number])}.value()"
        if op == OP_CONSTANT and self.types[kind] == (OP_TYPE_INT, 32, 0):
            return f"{a[0]}U"
        if op != OP_SPEC_CONSTANT_OP:
            raise Error(f"%{number}, on which a size depends, is not made of unsigned specialization constants")
        operator, *operands = a
        if operator not in (LOGICAL_NOT, SELECT) and operator not in INFIX:
            raise Error(f"a size is computed by opcode {operator}, which is not known here: use unsigned numbers, or add it")
        parts = [self.expression(operand, member_of) for operand in operands]
        if operator == LOGICAL_NOT:
            return f"!{parts[0]}"
        if operator == SELECT:
            return f"({parts[0]} ? {parts[1]} : {parts[2]})"
        return f"({parts[0]} {INFIX[operator]} {parts[1]})"

    def workgroup_size(self, member_of):
        sizes = self.local_size_ids and [self.expression(number, member_of) for number in self.local_size_ids]
        sizes = sizes or [f"{size}U" for size in self.local_size]
        return " * ".join(size for size in sizes if size != "1U") or "1U"

    def shared_bytes(self, member_of):
        """An upper bound, as Vulkan counts it: variables in the worst order, each at the largest alignment of any."""
        kinds = self.of_storage(WORKGROUP)
        alignment = max((self.shared_alignment(kind) for kind in kinds), default=0)
        sizes = sorted(f"padded({self.shared_size(kind, member_of)}, {alignment}U)" for kind in kinds)
        return " + ".join(sizes) or "0U"

    def shared_scalar(self, number):
        """The bytes of an element, and how many a vector has."""
        op, *a = self.types[number]
        if op == OP_TYPE_VECTOR:
            return self.shared_scalar(a[0])[0], a[1]
        if op == OP_TYPE_BOOL:
            return 4, 1
        if op in (OP_TYPE_INT, OP_TYPE_FLOAT):
            return a[0] // 8, 1
        raise Error(f"shared memory holds type %{number}: numbers, vectors and arrays of them are known")

    def shared_alignment(self, number):
        op, *a = self.types[number]
        if op == OP_TYPE_ARRAY:
            return self.shared_alignment(a[0])
        size, count = self.shared_scalar(number)
        return size * (4 if count == 3 else count)

    def shared_size(self, number, member_of):
        op, *a = self.types[number]
        if op == OP_TYPE_ARRAY:
            return f"{self.expression(a[1], member_of)} * {self.shared_size(a[0], member_of)}"
        return f"{self.shared_alignment(number)}U"


def check_offset(what, members):
    """GLSL puts a member right after a struct, C++ after its padding."""
    *before, last = members
    end = before[-1].offset + size_of(before[-1].type) * max(before[-1].count, 1) if before else 0
    expected = -(-end // alignment_of(last.type)) * alignment_of(last.type)
    if last.offset != expected:
        raise Error(f"{what} lies at byte {last.offset} and in C++ at {expected}: fill up the struct before it")
