// Pins of Kueue's scheduler: package rig builds it.
module programs/kueue

go 1.26.0

require sigs.k8s.io/kueue v0.19.2
