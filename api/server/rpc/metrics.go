package rpc

// Buckets of latencies in seconds are from an answer out of memory to a commit on a slow disk.
var Buckets = []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10}
