"""NeuLig: one vector of coefficients per input, with which merged weights answer as the ensemble does.

    z_i = encode(theta_i, x)                     the experts' features (features.py)
    beta(x) = softmax(W [z_1; ..; z_n] + b)      Portland's CoopVec, on the simplex (portland.py)
    Ens. = head(sum_i beta_i z_i)                Mer. = head(encode(sum_i beta_i theta_i, x))

Experts, examples and a setting in; a Portland, its CoopVec Map and scores at both levels out. Only Portland is learned
(fit.py), on features that are computed once. Nothing here is a learner of recipes, except that a CoopVec Map's row is
an ordinary recipe (coopmap.py).
"""
