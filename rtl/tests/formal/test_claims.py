"""Every claim can be built: the registers that its lemmas mention exist."""

import pytest
from amaranth.hdl import Fragment

from matloom.arch.config import PRESETS
from matloom_rtl.formal.runner import proofs_of


@pytest.mark.slow
def test_claims_of_nano_are_built():
    claims = [proof.build() for proof in proofs_of(PRESETS["nano"])]
    assert len(claims) > 30
    for claim in claims:
        assert claim.ports
        Fragment.get(claim.module, None).prepare(claim.ports)
