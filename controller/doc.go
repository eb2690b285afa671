// Package controller turns the events of a cluster into the configuration its
// scheduler should run. Service is the online loop: it takes events in, runs a
// tuning round whenever a scheduler's event time passes its update interval, or more
// jobs arrive than the last round expected, and publishes what the round adopts. What a
// round decides is a DecideFunc, the same one online and in evaluation.
package controller
