"""Models: what is computed in Python from the views and read by the views again.

Importing this package registers them with the library, which orders models and views in
one graph; nothing else happens at import.
"""

from __future__ import annotations

from workbench.analysis import clock_model, late_attach, step, what_if
from workbench.store.models import ModelSpec, register

MODELS = tuple(
    ModelSpec(name=name, reads=module.READS, writes=module.WRITES, run=module.run)
    for name, module in (
        ("late_attach", late_attach),
        ("clock", clock_model),
        ("step", step),
        ("what_if", what_if),
    )
)

for _model in MODELS:
    register(_model)
