package kube

import (
	"cmp"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/workload"
)

// Node is a Node of a cluster. The zero values of CPUs and Memory, in bytes, are unknown.
type Node struct {
	GPUs     int
	GPUModel string
	CPUs     int
	Memory   int64
	// Ready says that the node runs pods, Since since when it does or does not. Cordoned nodes take no further ones.
	Ready, Cordoned bool
	Since           time.Duration
}

// ReadNode reads a Node. Numbers of GPUs beyond the most of a node are an error of the object, and count as the most.
func ReadNode(o *kubejson.Object) Node {
	amount := o.Get("status", "allocatable")
	n := Node{GPUs: kubejson.ListGPUs(amount), CPUs: int(min(1e6, max(0, amount.Get("cpu").Float()))),
		Memory:   int64(min(1<<50, max(0, amount.Get("memory").Float()))),
		GPUModel: o.Get("metadata", "labels", "nvidia.com/gpu.product").Text(),
		Cordoned: o.Get("spec", "unschedulable").Bool()}
	if n.GPUs > workload.MaxGPUsPerNode {
		amount.Fail("%d GPUs are more than %d", n.GPUs, workload.MaxGPUsPerNode)
		n.GPUs = workload.MaxGPUsPerNode
	}
	n.Since, _ = o.Get("metadata", "creationTimestamp").Time()
	for _, c := range o.Get("status", "conditions").Items() {
		if c.Get("type").Text() == "Ready" {
			at, _ := c.Get("lastTransitionTime").Time()
			n.Ready, n.Since = c.Get("status").Text() == "True", max(n.Since, at)
		}
	}
	return n
}

// Count counts a node among its equals, and leaves their order to the groups alone.
func (n *Node) Count(groups []workload.NodeGroup) []workload.NodeGroup {
	const unit = 1 << 30 // kubelets reserve amounts that differ a little between equal machines
	g := workload.NodeGroup{Nodes: 1, GPUsPerNode: n.GPUs, CPUs: n.CPUs, Memory: n.Memory / unit * unit,
		GPUModel: n.GPUModel}
	i, found := slices.BinarySearchFunc(groups, g, func(a, b workload.NodeGroup) int {
		return cmp.Or(cmp.Compare(a.GPUModel, b.GPUModel), cmp.Compare(a.GPUsPerNode, b.GPUsPerNode),
			cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(a.Memory, b.Memory))
	})
	if found {
		groups[i].Nodes++
		return groups
	}
	return slices.Insert(groups, i, g)
}
