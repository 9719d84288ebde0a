"""Assigns sites to the hard blocks of a netlist, before nextpnr places the rest around them.

nextpnr's placers place hard blocks like tables, by their wires, and then move each to the nearest
free site. But a device has few sites, in rows far from each other, and a block in the wrong row
costs hundreds of long wires. Here all blocks are placed together, by the pull of the logic between
them.

Model: each end of a wire is tied to the wire's centre by a spring, as in quadratic placement (G.
Sigl, K. Doll, F. Johannes, "Analytical Placement: A Linear or a Quadratic Objective Function?", DAC
1991). For given positions of the blocks the logic settles at an optimum that can be eliminated,
which leaves a spring between each pair of blocks (the Schur complement of the matrix). The sites
are then chosen by simulated annealing, in which an accepted step costs two rows of that small
matrix.
"""

import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import exp

import numpy as np

from matloom_rtl.fpga.progress import FlowError

__all__ = ["Blocks", "assign_sites"]

#: Sites of each cell type, by nextpnr's names: `X4/Y10/MULT18_0`.
Blocks = Mapping[str, Sequence[str]]

#: Wires with more ends are ignored: clocks, resets and states reach cells all over the device.
_MOST_ENDS = 60

#: Annealing steps per block.
_STEPS = 6000

#: Number of annealing runs, of which the best is used: results differ by a fifth.
_ANNEALING_RUNS = 6

#: Final temperature, as a fraction of the initial one.
_FINAL_TEMPERATURE = 1e-4

#: Stiffness of a spring that ties each cell to the centre, for cells without a connection to any
#: block; negligible next to the stiffness of a wire, 1.
_WEAK_SPRING = 1e-6


def assign_sites(cells: dict, blocks: Blocks, seed: int = 1) -> int:
    """Set attribute BEL, a site, of each cell of a type in `blocks`; return the number of cells.

    Parameters
    ----------
    cells
        Cells of a flat netlist, in the form of Yosys' `write_json`; changed in place. Blocks that
        have a site keep it.
    seed
        Seed of the annealing; the same netlist and seed give the same result.

    Raises
    ------
    FlowError
        More blocks of a type than sites, or two blocks at one site.
    """
    movable, fixed = _blocks_of(cells, blocks)
    if not movable:
        return len(fixed)
    names = [*movable, *fixed]
    pulls = _spring_matrix(cells, names)
    dice = random.Random(seed)
    tries = [_Sites(names, cells, blocks, dice, fixed) for _ in range(_ANNEALING_RUNS)]
    best = min(tries, key=lambda sites: _anneal(pulls, sites, len(movable), dice))
    for name, site in zip(names, best.names(), strict=True):
        cells[name].setdefault("attributes", {})["BEL"] = site
    return len(names)


def _blocks_of(cells: dict, blocks: Blocks) -> tuple[list[str], dict[str, str]]:
    """Return the blocks without a site, and the sites of the others; check that all fit."""
    all_blocks = [name for name, cell in cells.items() if cell["type"] in blocks]
    for kind, sites in blocks.items():
        count = sum(cells[name]["type"] == kind for name in all_blocks)
        if count > len(sites):
            raise FlowError(f"the device has {len(sites)} {kind}, and the netlist {count}")
    fixed = {
        name: cells[name]["attributes"]["BEL"]
        for name in all_blocks
        if "BEL" in cells[name].get("attributes", {})
    }
    if len(set(fixed.values())) < len(fixed):
        raise FlowError("two blocks of the netlist must not have the same site")
    return [name for name in all_blocks if name not in fixed], fixed


def _spring_matrix(cells: dict, names: list[str]) -> np.ndarray:
    """Return the matrix A of springs between the blocks `names`, with the logic eliminated.

    If x are the positions of the blocks and the logic has settled, x'Ax is the energy of all
    springs.
    """
    # Imported here because it takes a second and only placement needs it.
    from scipy.sparse import coo_array, diags_array
    from scipy.sparse.linalg import cg

    order = {name: index for index, name in enumerate(names)}
    first, second = _spring_ends(cells, order)
    nodes = int(max(first.max(), second.max(), len(names))) + 1
    ones = np.ones(len(first))
    ties = coo_array((ones, (first, second)), shape=(nodes, nodes)).tocsr()
    ties = ties + ties.T
    matrix = (diags_array(np.asarray(ties.sum(axis=1)) + _WEAK_SPRING) - ties).tocsr()
    count = len(names)
    soft, between = matrix[count:, count:], matrix[count:, :count].tocsc()
    scale = diags_array(1 / soft.diagonal())
    pulls = matrix[:count, :count].toarray()
    for block in range(count):
        column = between[:, [block]].toarray().ravel()
        rest, _ = cg(soft, column, rtol=1e-4, maxiter=500, M=scale)
        pulls[:, block] -= between.T @ rest
    return (pulls + pulls.T) / 2


def _spring_ends(cells: dict, order: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of the cell and of the wire at the ends of each spring.

    The indices of blocks are those of `order`; other cells follow, and then the wires.
    """
    ends: dict[int, list[int]] = defaultdict(list)
    numbers = dict(order)
    for name, cell in cells.items():
        number = numbers.setdefault(name, len(numbers))
        # A cell counts as one end of a wire, however many of its ports the wire connects to.
        for bit in {bit for port in cell["connections"].values() for bit in port}:
            if isinstance(bit, int):
                ends[bit].append(number)
    wires = [each for each in ends.values() if 2 <= len(each) <= _MOST_ENDS]
    first = [number for each in wires for number in each]
    second = [len(numbers) + index for index, each in enumerate(wires) for _ in each]
    return np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)


class _Sites:
    """Assignment of blocks to sites.

    Members
    -------
    places:
        Coordinates x and y of each site, relative to the centre of all sites.
    of_block, block_at:
        Index of the site of each block, and of the block at each site, -1 if it is free.
    near:
        For each site, the other sites for the same type of cell, the nearest first.
    """

    def __init__(
        self,
        names: list[str],
        cells: dict,
        blocks: Blocks,
        dice: random.Random,
        fixed: dict[str, str],
    ):
        self._names = [site for sites in blocks.values() for site in sites]
        number = {site: index for index, site in enumerate(self._names)}
        places = np.array([_site_coordinates(site) for site in self._names], dtype=float)
        self.places = places - places.mean(axis=0)
        self.block_at = [-1] * len(self._names)
        self.of_block = [-1] * len(names)
        self.near: list[list[int]] = []
        for kind, sites in blocks.items():
            own = [number[site] for site in sites]
            self.near += [_nearest(self.places, site, own) for site in own]
            free = [site for site in own if self._names[site] not in fixed.values()]
            dice.shuffle(free)
            for block, name in enumerate(names):
                if cells[name]["type"] == kind:
                    self.put(block, number[fixed[name]] if name in fixed else free.pop())

    def put(self, block: int, site: int) -> None:
        """Assign a block to a site; the caller updates the block's previous site."""
        self.of_block[block] = site
        self.block_at[site] = block

    def names(self) -> list[str]:
        """Return the name of each block's site, in the order of the blocks."""
        return [self._names[site] for site in self.of_block]


def _site_coordinates(site: str) -> tuple[int, int]:
    """Return column and row of a site from its name, such as ``X4/Y10/EBR0``."""
    match = re.match(r"X(\d+)/Y(\d+)/", site)
    if match is None:
        raise FlowError(f"a site's name must begin with its place, X4/Y10/: {site}")
    return int(match[1]), int(match[2])


def _nearest(places: np.ndarray, site: int, others: list[int]) -> list[int]:
    """Return `others`, all sites of a type, by distance from `site`, which is left out."""
    distance = np.abs(places[others] - places[site]).sum(axis=1)
    return [others[index] for index in np.argsort(distance, kind="stable")[1:]]


def _anneal(pulls: np.ndarray, sites: _Sites, movable: int, rng: random.Random) -> float:
    """Anneal `sites` by moving and swapping the first `movable` blocks; return the final energy.

    The force on each block is known, so the cost of a step needs few numbers, and only an accepted
    step updates all forces, from two rows of the matrix. Most steps are rejected, so single numbers
    are read from lists, which is several times faster than from arrays.
    """
    force = pulls @ sites.places[sites.of_block]
    at, rows, forces = sites.places.tolist(), pulls.tolist(), force.tolist()
    near, of_block, block_at = sites.near, sites.of_block, sites.block_at
    steps = _STEPS * movable
    # A third of the energy of one block at random positions: nearly every step is accepted.
    hottest = _energy(pulls, sites) / len(pulls) / 3
    for step in range(steps):
        left = 1 - step / steps
        block = rng.randrange(movable)
        old = of_block[block]
        around = near[old]
        reach = max(8, left * len(around))
        new = around[int(rng.random() * reach) % len(around)] if around else old
        other = block_at[new]
        if other >= movable or new == old:
            continue
        x, y = at[new][0] - at[old][0], at[new][1] - at[old][1]
        cost = _cost(rows, forces, (x, y), block, other)
        if cost > 0 and rng.random() >= exp(-cost / (hottest * _FINAL_TEMPERATURE ** (1 - left))):
            continue
        block_at[old] = -1
        sites.put(block, new)
        force += np.outer(pulls[block], (x, y))
        if other >= 0:
            sites.put(other, old)
            force -= np.outer(pulls[other], (x, y))
        forces = force.tolist()
    return _energy(pulls, sites)


def _energy(pulls: np.ndarray, sites: _Sites) -> float:
    """Return the energy of all springs between blocks at their sites, up to a constant."""
    at = sites.places[sites.of_block]
    return float(np.sum(at * (pulls @ at)))


def _cost(pulls: list, force: list, way: tuple[float, float], block: int, other: int) -> float:
    """Return the change of energy if `block` moves by `way`, a step in x and y.

    Block `other` moves by the opposite step, unless it is -1. `pulls` is the matrix of springs, and
    `force` the force on each block.
    """
    x, y = way
    row, (right, up) = pulls[block], force[block]
    pull = row[block]
    if other >= 0:
        pull += pulls[other][other] - 2 * row[other]
        right, up = right - force[other][0], up - force[other][1]
    return 2 * (x * right + y * up) + (x * x + y * y) * pull
