// Package search looks for the best configuration of a space by measuring some
// of them. It is given a function to evaluate and never learns what is behind
// it; lower objectives are better.
//
// [Tune] follows Algorithm 1 of AutoSched (Gao et al., ICS 2024): sample,
// project, reject, measure, update. The default, the incumbent and the presets
// come first, then a [Sampler] goes on. Every configuration is measured on the
// same futures, so that configurations are compared pair by pair, and rewards
// are ratios to the incumbent's objective.
//
// The trial that wins is the one a model expects to be best, not the luckiest.
//
// Samplers, by name in [Samplers]:
//
//   - auto: chooses one of the others and says why.
//   - gp: a Gaussian process over numbers, logarithms and categories. Half of
//     what it asks for is most telling (the knowledge gradient), half most
//     promising (expected improvement).
//   - forest: expected improvement under extremely randomised trees.
//   - local: small changes of the best.
//   - sobol: scrambled Sobol points, with the direction numbers of Joe and Kuo,
//     "Constructing Sobol sequences with better two-dimensional projections",
//     SIAM J. Sci. Comput. 30 (2008).
//   - random: independent uniform points.
//   - bluefin: the two-point bandit gradient of SelfTune (Karthikeyan et al.,
//     NSDI 2023), exactly as its Python version 2 computes it; bluefin+ is the
//     same with its faults mended.
//
// Adding one is a file and an entry in that table. Except for those that learn
// step by step, a sampler is a function of the space, the history, the seed and
// the step, so that a study that is replayed proposes the same.
package search
