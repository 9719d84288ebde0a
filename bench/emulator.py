"""Runs Linux programs for other processors in an emulator, with the system calls of the tests."""

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import unicorn
from unicorn import arm64_const as arm
from unicorn import riscv_const as riscv

PAGE = 4096
#: Where the emulator's stack and heap lie: beyond programs, which are linked low. What a program
#: gives back of the heap is not given out again.
STACK, STACK_BYTES = 0x4000_0000, 1 << 20
HEAP, HEAP_BYTES = 0x5000_0000, 1 << 28
#: So many instructions are an endless loop.
MOST_INSTRUCTIONS = 2_000_000_000

#: Errors of Linux, as system calls return them.
NO_FILE, NO_CALL, NO_TERMINAL, NO_MEMORY = -2, -38, -25, -12

#: Entries of the vector that a kernel puts behind the environment: headers of the program, page,
#: and sixteen bytes of chance.
AT_PHDR, AT_PHENT, AT_PHNUM, AT_PAGESZ, AT_RANDOM = 3, 4, 5, 6, 25


@dataclass(frozen=True)
class Processor:
    """A processor that both ziglang and the emulator support."""

    target: str
    bits: int
    order: str
    mode: tuple[int, int]
    #: Registers of a system call: number, six arguments; then the stack and the program counter.
    call: int
    arguments: tuple[int, ...]
    stack: int
    counter: int


_ARM = {
    "bits": 64,
    "call": arm.UC_ARM64_REG_X8,
    "arguments": tuple(arm.UC_ARM64_REG_X0 + at for at in range(6)),
    "stack": arm.UC_ARM64_REG_SP,
    "counter": arm.UC_ARM64_REG_PC,
}
PROCESSORS = {
    "aarch64": Processor(
        target="aarch64-linux-musl",
        order="<",
        mode=(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM),
        **_ARM,
    ),
    "aarch64_be": Processor(
        target="aarch64_be-linux-musl",
        order=">",
        mode=(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM | unicorn.UC_MODE_BIG_ENDIAN),
        **_ARM,
    ),
    "riscv32": Processor(
        target="riscv32-linux-musl",
        bits=32,
        order="<",
        mode=(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32),
        call=riscv.UC_RISCV_REG_A7,
        arguments=tuple(riscv.UC_RISCV_REG_A0 + at for at in range(6)),
        stack=riscv.UC_RISCV_REG_SP,
        counter=riscv.UC_RISCV_REG_PC,
    ),
}


def _pages(start, size):
    """Return the start and the size in bytes of the whole pages that contain a range."""
    first = start & -PAGE
    return first, -(-(start + size) // PAGE) * PAGE - first


@dataclass
class Machine:
    """An emulated processor with a program, standard streams, and readable files by name."""

    processor: Processor
    files: dict[str, bytes]
    input: bytes = b""
    output: dict[int, bytes] = field(default_factory=lambda: {1: b"", 2: b""})
    code: int | None = None

    def run(self, program: Path, arguments: list[str]) -> int:
        """Run a program until it exits; return its exit status."""
        self._open = {0: [self.input, 0]}
        self._heap = HEAP
        self._uc = unicorn.Uc(*self.processor.mode)
        entry, vector = self._load(program.read_bytes())
        self._uc.mem_map(STACK, STACK_BYTES)
        self._uc.mem_map(HEAP, HEAP_BYTES)
        self._push([program.name, *arguments], vector)
        self._enable_floats()
        self._uc.hook_add(unicorn.UC_HOOK_INTR, self._interrupt)
        self._uc.emu_start(entry, 0, count=MOST_INSTRUCTIONS)
        assert self.code is not None, "the program did not end"
        return self.code

    # ---- The program and its start ----

    def _word(self):
        """Return the `struct` code of a word of the processor."""
        return "Q" if self.processor.bits == 64 else "I"

    def _unpack(self, layout, data, offset=0):
        """Return the values of a `struct` layout in the processor's byte order."""
        return struct.unpack_from(self.processor.order + layout, data, offset)

    def _load(self, data):
        """Map the segments of an ELF file into memory.

        Returns the entry point, and the auxiliary vector for the program's start code, by key.
        """
        wide = self.processor.bits == 64
        entry, headers = self._unpack("QQ" if wide else "II", data, 24)
        size, count = self._unpack("HH", data, 54 if wide else 42)
        mapped, first = set(), None
        for at in range(headers, headers + size * count, size):
            if wide:
                kind, _, offset, start, _, held, whole, _ = self._unpack("IIQQQQQQ", data, at)
            else:
                kind, offset, start, _, held, whole, _, _ = self._unpack("IIIIIIII", data, at)
            if kind != 1:
                continue
            page, length = _pages(start, whole)
            for one in range(page, page + length, PAGE):
                if one not in mapped:
                    self._uc.mem_map(one, PAGE)
                    mapped.add(one)
            self._uc.mem_write(start, data[offset : offset + held])
            first = start - offset if first is None else first
        vector = {AT_PHDR: first + headers, AT_PHENT: size, AT_PHNUM: count, AT_PAGESZ: PAGE}
        return entry, vector

    def _push(self, arguments, vector):
        """Write arguments and the auxiliary `vector` to the stack, as Linux does at the start."""
        top = STACK + STACK_BYTES - 4 * PAGE
        texts = b"".join(word.encode() + b"\0" for word in arguments)
        at, places = top + 64, []
        for word in arguments:
            places.append(at)
            at += len(word.encode()) + 1
        self._uc.mem_write(top, bytes(range(64)) + texts)
        pairs = [number for pair in vector.items() for number in pair] + [AT_RANDOM, top, 0, 0]
        words = [len(arguments), *places, 0, 0, *pairs]
        layout = f"{self.processor.order}{len(words)}{self._word()}"
        stack = (top - struct.calcsize(layout)) & -16
        self._uc.mem_write(stack, struct.pack(layout, *words))
        self._uc.reg_write(self.processor.stack, stack)

    def _enable_floats(self):
        """Allow floating-point instructions, which a processor traps after reset."""
        if self.processor.bits == 64:
            self._uc.reg_write(arm.UC_ARM64_REG_CPACR_EL1, 3 << 20)
        else:
            self._uc.reg_write(riscv.UC_RISCV_REG_MSTATUS, 1 << 13)

    # ---- System calls, whose numbers AArch64 and RISC-V share ----

    def _interrupt(self, uc, _number, _data):
        """Handle a system call of the emulated program, for Unicorn's interrupt hook."""
        call = uc.reg_read(self.processor.call)
        arguments = [uc.reg_read(register) for register in self.processor.arguments]
        handler = self._CALLS.get(call)
        result = NO_CALL if handler is None else handler(self, *arguments)
        if self.code is not None:
            uc.emu_stop()
            return
        uc.reg_write(self.processor.arguments[0], result & (1 << self.processor.bits) - 1)

    def _exit(self, code, *_):
        """Handle `exit`: keep the exit status."""
        self.code = code & 255

    def _return_zero(self, *_):
        """Handle a system call that does nothing: return 0."""
        return 0

    def _ioctl(self, *_):
        """Handle `ioctl`: return the code for files that are no terminal."""
        return NO_TERMINAL

    def _text(self, address):
        """Return the null-terminated string at an address."""
        found = b""
        while not found.endswith(b"\0"):
            found += bytes(self._uc.mem_read(address + len(found), 1))
        return found[:-1].decode()

    def _open_file(self, _folder, path, *_):
        """Handle `openat`: return the number of an open file, or the code for a missing one."""
        name = self._text(path)
        if name not in self.files:
            return NO_FILE
        number = 3 + len(self._open)
        self._open[number] = [self.files[name], 0]
        return number

    def _read(self, number, address, size, *_):
        """Handle `read`: copy bytes of an open file to memory, and return their number."""
        data, place = self._open[number]
        part = data[place : place + size]
        self._open[number][1] += len(part)
        self._uc.mem_write(address, part)
        return len(part)

    def _write(self, number, address, size, *_):
        """Handle `write`: append bytes of memory to the captured output; return their number."""
        self.output[number] += bytes(self._uc.mem_read(address, size))
        return size

    def _spans(self, address, count):
        """Yield address and length of each buffer of a system call like readv or writev."""
        size = self.processor.bits // 8
        for part in range(count):
            data = bytes(self._uc.mem_read(address + 2 * size * part, 2 * size))
            yield self._unpack(2 * self._word(), data)

    def _read_parts(self, number, address, count, *_):
        """Handle `readv`: read into several buffers; return the number of bytes."""
        return sum(self._read(number, *span) for span in self._spans(address, count))

    def _write_parts(self, number, address, count, *_):
        """Handle `writev`: write from several buffers; return the number of bytes."""
        return sum(self._write(number, *span) for span in self._spans(address, count))

    def _map(self, _at, size, *_):
        """Handle `mmap`: return the address of new memory, or the code for too little memory."""
        place = self._heap
        self._heap += _pages(0, size)[1]
        return place if self._heap <= HEAP + HEAP_BYTES else NO_MEMORY

    _CALLS: ClassVar = {
        29: _ioctl,  # ioctl
        56: _open_file,
        57: _return_zero,  # close
        63: _read,
        64: _write,
        65: _read_parts,
        66: _write_parts,
        93: _exit,
        94: _exit,
        96: _return_zero,  # set_tid_address
        135: _return_zero,  # rt_sigprocmask
        214: _return_zero,  # brk: refused, so that the heap is mapped
        215: _return_zero,  # munmap
        222: _map,
        226: _return_zero,  # mprotect
    }
