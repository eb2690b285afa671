// Package arrivals forecasts which jobs will arrive: not one future but as many
// as asked for, drawn with a seed, each a list of past jobs that come again.
//
// Jobs come in batches (sweeps: jobs of one tenant with gaps of at most
// workload.BatchGap), so a future is put together from whole batches of history:
// sizes, durations and GPUs stay together. How many jobs and batches there are
// comes from one of Methods:
//
//   - paper: Gao et al., AutoSched, ICS 2024, section 3.2.1. Requests per 5
//     minutes, the periodic part by Fourier transform, the place in history most
//     like the last hour; the hours after it are copied.
//   - repeat: the last hour again.
//   - ridge, boosted: the logarithm of the next count from lagged counts, hour
//     and weekday (Hoerl and Kennard 1970; Friedman 2001), refitted as days pass.
//   - ensemble: the members' logarithms, weighted by their rolling back-test with
//     weights that are not negative and add up to one (Breiman, Stacked
//     Regressions, 1996).
//
// The last three give a level, not a distribution. That comes from the back-test:
// of all instants of the past, those are looked up at which the same was
// forecast, and one of the actual arrivals then is drawn (an analog ensemble, Delle
// Monache et al. 2013, with recent instants weighing more). So totals are
// unbiased, intervals cover and bursts stay bursts by construction, as far as the
// past is like the future.
//
// Everything is causal: a forecast at an instant is a function of the arrivals
// before it. Instants are since the workload's zero; counts are per bin of a grid
// that starts at midnight. The package does not know how long jobs will
// run. A future names past jobs and leaves their durations to the caller.
package arrivals
