package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Cluster is the hardware a workload runs on.
type Cluster struct {
	// Groups are the nodes. A node's number counts from 0 through the groups in
	// order: the first group has the lowest numbers.
	Groups []NodeGroup `json:"groups"`
	// VCs are quotas of GPUs by tenant. Empty means one pool for all: a trace's
	// tenant column does not by itself split the cluster.
	VCs []VC `json:"vcs,omitempty"`
	// Site is the additional knowledge of schedulers like Slurm.
	Site Site `json:"site,omitzero"`
}

// NodeGroup is a number of equal nodes. Fields that are zero are unknown: any
// job fits them.
type NodeGroup struct {
	Name        string `json:"name,omitempty"`
	Nodes       int    `json:"nodes"`
	GPUsPerNode int    `json:"gpus_per_node"`
	GPUModel    string `json:"gpu_model,omitempty"`
	// Partition is the set of nodes that jobs ask for by name: a partition of
	// Slurm, a node pool of Kubernetes. Nodes in several have commas between the names.
	Partition string            `json:"partition,omitempty"`
	CPUs      int               `json:"cpus,omitempty"`         // of each node
	Memory    int64             `json:"memory_bytes,omitempty"` // of each node
	Weight    int64             `json:"weight,omitempty"`       // jobs get nodes of lower ones first
	Labels    map[string]string `json:"labels,omitempty"`
}

// VC is a virtual cluster: a tenant's quota in whole GPUs.
type VC struct {
	Tenant string `json:"tenant"`
	GPUs   int    `json:"gpus"`
	// Weight is the tenant's share in divisions between tenants, relative
	// to the others'. 0 means none is declared: quotas take its place.
	Weight float64 `json:"weight,omitempty"`
	// Cohort is the name of the quotas that lend their idle GPUs to each other, empty for a quota that neither
	// lends nor borrows.
	Cohort string `json:"cohort,omitempty"`
	Borrow Bound  `json:"borrow,omitzero"` // the most beyond GPUs
	Lend   Bound  `json:"lend,omitzero"`   // the most of GPUs that others may hold
}

// A Bound is a number of GPUs in JSON; the zero value, which is absent there, bounds nothing.
type Bound struct {
	GPUs int
	Set  bool
}

// BoundOf is a bound of a number of GPUs.
func BoundOf(gpus int) Bound { return Bound{gpus, true} }

// MarshalJSON writes the number.
func (b Bound) MarshalJSON() ([]byte, error) { return json.Marshal(b.GPUs) }

// UnmarshalJSON reads a number; null is no bound.
func (b *Bound) UnmarshalJSON(data []byte) error {
	var gpus *int
	if err := json.Unmarshal(data, &gpus); err != nil {
		return fmt.Errorf("%s is not a number of GPUs", data)
	}
	if *b = (Bound{}); gpus != nil {
		*b = BoundOf(*gpus)
	}
	return nil
}

// validate names the first field of a quota that no scheduler can use.
func (v *VC) validate() error {
	switch {
	case v.Cohort == "" && v.Borrow.Set:
		return fmt.Errorf("borrow: there is no cohort to borrow from: name one, or leave it out")
	case v.Cohort == "" && v.Lend.Set:
		return fmt.Errorf("lend: there is no cohort to lend to: name one, or leave it out")
	case v.Borrow.GPUs < 0:
		return fmt.Errorf("borrow: %d is negative", v.Borrow.GPUs)
	case v.Lend.GPUs < 0:
		return fmt.Errorf("lend: %d is negative", v.Lend.GPUs)
	case v.Lend.Set && v.Lend.GPUs > v.GPUs:
		return fmt.Errorf("lend: %d is more than the quota of %d GPUs", v.Lend.GPUs, v.GPUs)
	}
	return nil
}

// SmallCluster is the size in GPUs up to which tuning has little to gain.
const SmallCluster = 32

// Limits of a cluster.
const (
	MaxNodes       = 1_000_000
	MaxGPUsPerNode = 1024
)

// Uniform is a cluster of one group of nodes.
func Uniform(nodes, gpusPerNode int) Cluster {
	return Cluster{Groups: []NodeGroup{{Nodes: nodes, GPUsPerNode: gpusPerNode}}}
}

// UnmarshalJSON also reads a cluster of one group that gives its size as nodes and
// gpus_per_node beside the quotas, as records without groups do.
func (c *Cluster) UnmarshalJSON(data []byte) error {
	return c.decode(json.NewDecoder(bytes.NewReader(data)))
}

// ParseCluster reads a cluster that people may have written: fields that it does not have, and text behind it, are
// errors.
func ParseCluster(text []byte) (Cluster, error) {
	var c Cluster
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := c.decode(d); err != nil {
		return c, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return c, errors.New("cluster: there is more behind its last brace: name one cluster")
	}
	return c, c.Validate()
}

func (c *Cluster) decode(d *json.Decoder) error {
	type plain Cluster
	var v struct {
		plain
		Nodes       int `json:"nodes"`
		GPUsPerNode int `json:"gpus_per_node"`
	}
	if err := d.Decode(&v); err != nil {
		if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			return fmt.Errorf("cluster: there is no field %s: take it out, or mend its name", name)
		}
		return err
	}
	*c = Cluster(v.plain)
	if v.Nodes != 0 || v.GPUsPerNode != 0 {
		if len(c.Groups) > 0 {
			return fmt.Errorf("cluster: nodes: has groups as well, want one of the two")
		}
		c.Groups = Uniform(v.Nodes, v.GPUsPerNode).Groups
	}
	return nil
}

// Nodes is the number of nodes of all groups.
func (c Cluster) Nodes() int {
	n := 0
	for i := range c.Groups {
		n += c.Groups[i].Nodes
	}
	return n
}

// TotalGPUs is the number of GPUs of all nodes.
func (c Cluster) TotalGPUs() int {
	n := 0
	for i := range c.Groups {
		n += c.Groups[i].Nodes * c.Groups[i].GPUsPerNode
	}
	return n
}

// GPUsPerNode is the number of GPUs of the largest node.
func (c Cluster) GPUsPerNode() int {
	most := 0
	for i := range c.Groups {
		most = max(most, c.Groups[i].GPUsPerNode)
	}
	return most
}

// Constraint returns the GPU model and the partition that the nodes of a request must
// have. A name that it asks for is dropped where no group names its own: the cluster's
// are not known.
func (c Cluster) Constraint(r Request) (model, partition string) {
	for i := range c.Groups {
		if c.Groups[i].GPUModel != "" {
			model = r.GPUModel
		}
		if c.Groups[i].Partition != "" {
			partition = r.Partition
		}
	}
	return model, partition
}

// Satisfies reports whether the nodes have a GPU model and are in a partition. Empty
// names match any node.
func (g *NodeGroup) Satisfies(model, partition string) bool {
	return (model == "" || model == g.GPUModel) && (partition == "" || g.in(partition))
}

func (g *NodeGroup) in(partition string) bool {
	for name := range strings.SplitSeq(g.Partition, ",") {
		if name == partition {
			return true
		}
	}
	return false
}

// Rationed reports whether nodes of a group have known CPUs or memory.
func (c Cluster) Rationed() bool {
	for i := range c.Groups {
		if c.Groups[i].CPUs > 0 || c.Groups[i].Memory > 0 {
			return true
		}
	}
	return false
}

// Holds is the number of GPUs that an empty node gives a job, by its share of CPUs and
// memory.
func (g *NodeGroup) Holds(j *Job) int {
	most := int64(g.GPUsPerNode)
	cpus, memory := j.PerGPU()
	if cpus > 0 && g.CPUs > 0 {
		most = min(most, 1000*int64(g.CPUs)/cpus)
	}
	if memory > 0 && g.Memory > 0 {
		most = min(most, g.Memory/memory)
	}
	return int(most)
}

// Fits reports whether a job can run while no other does: whether one group that
// satisfies its constraint has as many GPUs as it asks for, with their share of its CPUs
// and memory, or, for a job that stands for several or asks for a number of nodes, all such groups together.
func (c Cluster) Fits(j *Job) bool {
	r := j.Request()
	model, partition := c.Constraint(r)
	most, nodes, some := 0, int(r.NodeCount), 0
	for i := range c.Groups {
		g := &c.Groups[i]
		switch {
		case !g.Satisfies(model, partition):
		case nodes > 0 && j.GPUs.Whole() > nodes*g.Holds(j):
		case nodes > g.Nodes:
			some += g.Nodes
		case j.Size() > 1:
			most += g.Nodes * g.Holds(j)
		default:
			most = max(most, g.Nodes*g.Holds(j))
		}
	}
	return j.GPUs <= GPUs(most) || nodes > 0 && some >= nodes
}

// GroupOf returns the index of the group of a node, -1 if there is no such node.
func (c Cluster) GroupOf(node int) int {
	if node < 0 {
		return -1
	}
	for i := range c.Groups {
		if node < c.Groups[i].Nodes {
			return i
		}
		node -= c.Groups[i].Nodes
	}
	return -1
}

// Validate refuses clusters without GPUs or too large to count. A group may be
// empty, as when all its nodes are down, but not all groups.
func (c Cluster) Validate() error {
	if err := c.Site.Validate(); err != nil {
		return fmt.Errorf("cluster: site: %w", err)
	}
	for i := range c.VCs {
		if err := c.VCs[i].validate(); err != nil {
			return fmt.Errorf("cluster: virtual cluster %q: %w", c.VCs[i].Tenant, err)
		}
	}
	nodes := 0
	for i := range c.Groups {
		if err := c.Groups[i].validate(); err != nil {
			if len(c.Groups) > 1 {
				return fmt.Errorf("cluster: group %d (%q): %w", i, c.Groups[i].Name, err)
			}
			return fmt.Errorf("cluster: %w", err)
		}
		nodes = min(nodes+c.Groups[i].Nodes, MaxNodes+1)
	}
	switch {
	case nodes <= 0:
		return fmt.Errorf("cluster: nodes: %d is not positive", nodes)
	case nodes > MaxNodes:
		return fmt.Errorf("cluster: nodes: is more than 1,000,000")
	}
	return nil
}

func (g *NodeGroup) validate() error {
	switch {
	case g.Nodes < 0:
		return fmt.Errorf("nodes: %d is not positive", g.Nodes)
	case g.Nodes > MaxNodes:
		return fmt.Errorf("nodes: %d is more than 1,000,000", g.Nodes)
	case g.GPUsPerNode <= 0 && g.Nodes > 0:
		return fmt.Errorf("gpus per node: %d is not positive", g.GPUsPerNode)
	case g.GPUsPerNode > MaxGPUsPerNode:
		return fmt.Errorf("gpus per node: %d is more than 1024", g.GPUsPerNode)
	case g.CPUs < 0:
		return fmt.Errorf("cpus: %d is negative", g.CPUs)
	case g.Memory < 0:
		return fmt.Errorf("memory: %d bytes is negative", g.Memory)
	}
	return nil
}

// String lists the groups: "20 nodes x 8 GPUs", or "2 nodes x 8 A100 GPUs in train + ...".
func (c Cluster) String() string {
	var b strings.Builder
	for i := range c.Groups {
		g := &c.Groups[i]
		if i > 0 {
			b.WriteString(" + ")
		}
		nodes := "nodes"
		if g.Nodes == 1 {
			nodes = "node"
		}
		fmt.Fprintf(&b, "%d %s x %d ", g.Nodes, nodes, g.GPUsPerNode)
		if g.GPUModel != "" {
			b.WriteString(g.GPUModel + " ")
		}
		b.WriteString("GPUs")
		if g.Partition != "" {
			b.WriteString(" in " + g.Partition)
		}
	}
	if b.Len() == 0 {
		return "0 nodes"
	}
	return b.String()
}
