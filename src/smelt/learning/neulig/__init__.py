"""NeuLig: one vector of coefficients per input, with which merged weights answer as the ensemble does.

    z_i = encode(theta_i, x)                     the experts' features (features.py)
    beta(x) = softmax(W [z_1; ..; z_n] + b)      Portland's CoopVec, on the simplex (portland.py)
    Ens. = head(sum_i beta_i z_i)                Mer. = head(encode(sum_i beta_i theta_i, x))

Experts, examples and a setting in; a Portland, its CoopVec Map and scores at both levels out. Only Portland is learned
(fit.py), on features that are computed once. Nothing here is a learner of recipes, except that a CoopVec Map's row is
an ordinary recipe (coopmap.py).
"""

from __future__ import annotations

from smelt.learning.neulig.alignment import Alignment
from smelt.learning.neulig.batch_norm import re_estimated
from smelt.learning.neulig.classifier import Collaboration, load_collaboration
from smelt.learning.neulig.collaborate import MODES, Mode, ensembled_logits, merged_logits
from smelt.learning.neulig.coopmap import CoopVecMap, coopvec_map
from smelt.learning.neulig.experts import Experts
from smelt.learning.neulig.features import Features, features_of
from smelt.learning.neulig.fit import Epoch, Fitted, Setting, fit
from smelt.learning.neulig.losses import boosting
from smelt.learning.neulig.portland import Portland

__all__ = [
    "MODES",
    "Alignment",
    "Collaboration",
    "CoopVecMap",
    "Epoch",
    "Experts",
    "Features",
    "Fitted",
    "Mode",
    "Portland",
    "Setting",
    "boosting",
    "coopvec_map",
    "ensembled_logits",
    "features_of",
    "fit",
    "load_collaboration",
    "merged_logits",
    "re_estimated",
]
