"""Exact counts of an engine's multiplier blocks and block RAMs, on devices with 18-bit blocks."""

from matloom.arch.config import Config

#: Multiplier blocks of a lane, and of everything besides array, lanes and POST's products, which
#: have one block for each column.
_LANE_BLOCKS, _OTHER_BLOCKS = 4, 3

#: Shapes of a block RAM with byte writes: width in bytes, and number of rows.
_SHAPES = ((1, 2048), (2, 1024), (4, 512))

#: Bits of the widest word of a block RAM, which then has 512 rows.
_WIDEST_WORD_BITS = 36


def _blocks_outside_array(config: Config) -> int:
    """Return the number of multiplier blocks that an engine uses outside its array."""
    products = config.columns if config.products else 0
    return _LANE_BLOCKS * config.lanes + products + _OTHER_BLOCKS


def columns_in_tables(config: Config, blocks: int) -> int:
    """Return the number of columns that multiply in lookup tables for lack of multiplier blocks.

    `blocks` is the number of multiplier blocks of the device.
    """
    left = blocks - _blocks_outside_array(config)
    return max(0, config.columns - max(0, left) // config.rows)


def multiplier_blocks(config: Config, soft_columns: int = 0, blocks_per_cell: float = 1) -> float:
    """Return the number of multiplier blocks of an engine without floating point.

    Parameters
    ----------
    soft_columns
        Number of columns of the array that multiply in tables.
    blocks_per_cell
        Number of blocks per product of two bytes: half a block on a Gowin.
    """
    hard = config.rows * (config.columns - soft_columns)
    return blocks_per_cell * hard + _blocks_outside_array(config)


def own_block_rams(config: Config) -> int:
    """Return the number of block RAMs of 18 Kbit that the memories of an engine use.

    These are scratchpad, accumulators, windows, the steps of the bounds check, instructions read
    ahead (on buses of up to 64 bits), the table of completion times from 64 entries on, and POST's
    tables if they are in block RAM. Smaller memories use no block RAM.
    """
    halves = 2 * config.spad_banks * _byte_memory_blocks(config.word_bytes, _lines_per_bank(config))
    # Two banks, each of two halves if a mode is narrow.
    banks = 4 if config.has_narrow else 2
    sums = banks * config.columns * _byte_memory_blocks(4, config.acc_entries // banks)
    ahead = _bit_memory_blocks(config.bus_bits) if config.bus_bits <= 64 else 0
    times = int(config.timestamps >= 64)
    tables = -(-config.lanes // 2) if config.tables == 2 else 0
    steps = 1
    return halves + sums + _window_blocks(config) + steps + ahead + times + tables


def _lines_per_bank(config: Config) -> int:
    """Return the number of lines of a scratchpad bank."""
    return config.bank_bytes // config.line_bytes


def _byte_memory_blocks(width: int, depth: int) -> int:
    """Return the number of block RAMs for `depth` words of `width` bytes, with byte writes."""
    return min(-(-width // bytes_) * -(-depth // rows) for bytes_, rows in _SHAPES)


def _bit_memory_blocks(width: int) -> int:
    """Return the number of block RAMs of a memory of at most 512 words of `width` bits."""
    return -(-width // _WIDEST_WORD_BITS)


def _window_blocks(config: Config) -> int:
    """Return the number of block RAMs for the line memories of sliding windows."""
    older = config.window_lines - 1
    if older < 1:
        return 0
    # A window of four positions stores a byte of each.
    kept = 4 if config.has_paired_windows else older
    groups = config.columns // config.broadcast_group
    return groups * _bit_memory_blocks(8 * kept * config.broadcast_group)


def link_block_rams() -> int:
    """Return the number of block RAMs of a board's host link."""
    return 1


def memory_block_rams(kind: str, size: int, bus_bits: int, masks: bool = True) -> int:
    """Return the number of block RAMs of a board's external memory.

    If `kind` is ``block``, these hold `size` bytes; otherwise, they are the queues of an SDRAM. An
    SDRAM without byte masks (`masks` is False) needs more queues; on a bus of 32 bits, its
    additional write queue is in lookup tables.
    """
    if kind == "block":
        return -(-size // 2048)
    # A read beat carries its id and `last`; a write beat carries a strobe per byte.
    queues = _bit_memory_blocks(bus_bits + 2) + _bit_memory_blocks(bus_bits * 9 // 8)
    if not masks:
        # Plus the two bits of a response, and `last`.
        queues += _bit_memory_blocks(bus_bits + 4)
        queues += _bit_memory_blocks(bus_bits * 9 // 8 + 1) if bus_bits > 32 else 0
    return queues
