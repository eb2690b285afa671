package workload

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Site is the knowledge of a cluster's scheduler about users, qualities of service and partitions besides its
// configuration, in Slurm's terms.
type Site struct {
	QOS        []QOS       `json:"qos,omitempty"`
	Accounts   []Account   `json:"accounts,omitempty"`
	Partitions []Partition `json:"partitions,omitempty"`
	Limits     []Limit     `json:"limits,omitempty"`
	// Reservations are times in which nodes take no other jobs.
	Reservations []Reservation `json:"reservations,omitempty"`
	// Switches are the network's: jobs get nodes of few of them.
	Switches []Switch `json:"switches,omitempty"`
	// Settings are the lines of the scheduler's configuration that are not tuned, by their keys.
	Settings map[string]string `json:"settings,omitempty"`
}

// QOS is a quality of service, by its name in Request.QOS.
type QOS struct {
	Name     string   `json:"name"`
	Priority int64    `json:"priority"`
	Preempt  []string `json:"preempt,omitempty"` // names of QOS whose jobs make room for its own
	// PreemptMode is the fate of its jobs that are preempted, where QOS decide: requeue or cancel; empty is as the
	// cluster has it.
	PreemptMode PreemptMode `json:"preempt_mode,omitempty"`
	// UsageFactor multiplies the usage that its jobs are charged for; nil is 1.
	UsageFactor *float64 `json:"usage_factor,omitempty"`
}

// PreemptMode is the fate of jobs whose place others take.
type PreemptMode string

// The modes.
const (
	PreemptOff     PreemptMode = "off" // they may not be preempted
	PreemptRequeue PreemptMode = "requeue"
	PreemptCancel  PreemptMode = "cancel"
)

func (m PreemptMode) validate() error {
	switch m {
	case "", PreemptOff, PreemptRequeue, PreemptCancel:
		return nil
	}
	return fmt.Errorf("%q is none of off, requeue and cancel", string(m))
}

// Account is an account below Parent (empty: the root), or with User set that user's association in it.
type Account struct {
	Name   string  `json:"name"`
	Parent string  `json:"parent,omitempty"`
	User   string  `json:"user,omitempty"`
	Shares float64 `json:"shares"`
}

// Partition is a set of nodes, the nodes of the groups that name it.
type Partition struct {
	Name         string `json:"name"`
	PriorityTier int64  `json:"priority_tier,omitempty"` // the jobs of a higher one come first
	JobFactor    int64  `json:"priority_job_factor,omitempty"`
	// DefaultMinutes and MaxMinutes are time limits; 0 is none.
	DefaultMinutes int64 `json:"default_minutes,omitempty"`
	MaxMinutes     int64 `json:"max_minutes,omitempty"`
	// BillingCPU and BillingGPU are TRESBillingWeights; both 0 charge CPUs.
	BillingCPU float64 `json:"billing_cpu,omitempty"`
	BillingGPU float64 `json:"billing_gpu,omitempty"`
	// PreemptMode is that of its jobs, where tiers decide; empty is as the cluster has it.
	PreemptMode PreemptMode `json:"preempt_mode,omitempty"`
	// QOS is the one whose limits hold for all of its jobs, before the limits of their own.
	QOS string `json:"qos,omitempty"`
	// Exclusive says that its jobs take nodes whole.
	Exclusive bool `json:"exclusive,omitempty"`
}

// A Switch connects nodes, or other switches that have it as their parent.
type Switch struct {
	Name   string         `json:"name"`
	Parent string         `json:"parent,omitempty"`
	Nodes  []ReservedNode `json:"nodes,omitempty"`
}

// A Reservation keeps nodes from jobs that would run within a time.
type Reservation struct {
	Name  string         `json:"name,omitempty"`
	From  time.Time      `json:"from"`
	To    time.Time      `json:"to"`
	Nodes []ReservedNode `json:"nodes"`
	// Whole says that plans for partitions of which it has all nodes go on behind it.
	Whole bool `json:"whole,omitempty"`
}

// ReservedNode is a node of a reservation or switch.
type ReservedNode struct {
	// Number is as the groups have their nodes in order, and in a State as the State has them.
	Number int `json:"number"`
	// Name is the scheduler's, empty if the node is known by its number.
	Name string `json:"name,omitempty"`
}

// Validate names the first field that no scheduler can use.
func (s *Site) Validate() error {
	unusable := func(x float64) bool { return !(x >= 0 && x <= math.MaxFloat64) }
	for i, q := range s.QOS {
		if q.Name == "" {
			return fmt.Errorf("qos %d: name: is empty", i)
		}
		if q.UsageFactor != nil && unusable(*q.UsageFactor) {
			return fmt.Errorf("qos %q: usage_factor: %g is not a number from 0", q.Name, *q.UsageFactor)
		}
		if q.PreemptMode == PreemptOff {
			return fmt.Errorf("qos %q: preempt_mode: %q is for partitions: take the QOS out of the others' preempt",
				q.Name, q.PreemptMode)
		}
		if err := q.PreemptMode.validate(); err != nil {
			return fmt.Errorf("qos %q: preempt_mode: %w", q.Name, err)
		}
	}
	for i := range s.Limits {
		if err := s.Limits[i].validate(); err != nil {
			return fmt.Errorf("limit %d: %w", i, err)
		}
	}
	for i, a := range s.Accounts {
		if unusable(a.Shares) {
			return fmt.Errorf("account %d (%q, user %q): shares: %g is not a number from 0", i, a.Name, a.User,
				a.Shares)
		}
		if a.Name == "" && a.User == "" {
			return fmt.Errorf("account %d: name: is empty", i)
		}
	}
	for i := range s.Reservations {
		r := &s.Reservations[i]
		if !r.From.Before(r.To) {
			return fmt.Errorf("reservation %q: to: %v is not after from", r.Name, r.To)
		}
		for _, n := range r.Nodes {
			if n.Number < 0 {
				return fmt.Errorf("reservation %q: nodes: number: %d is negative", r.Name, n.Number)
			}
		}
	}
	for i, w := range s.Switches {
		parent := slices.IndexFunc(s.Switches, func(o Switch) bool { return o.Name == w.Parent })
		switch {
		case w.Name == "":
			return fmt.Errorf("switch %d: name: is empty", i)
		case w.Parent != "" && parent <= i:
			return fmt.Errorf("switch %q: parent: %q is none of the switches behind it", w.Name, w.Parent)
		case slices.ContainsFunc(w.Nodes, func(n ReservedNode) bool { return n.Number < 0 }):
			return fmt.Errorf("switch %q: nodes: number: is negative", w.Name)
		}
	}
	for i, p := range s.Partitions {
		if err := p.PreemptMode.validate(); err != nil {
			return fmt.Errorf("partition %q: preempt_mode: %w", p.Name, err)
		}
		switch {
		case p.Name == "":
			return fmt.Errorf("partition %d: name: is empty", i)
		case p.DefaultMinutes < 0 || p.MaxMinutes < 0:
			return fmt.Errorf("partition %q: default_minutes, max_minutes: is negative", p.Name)
		case unusable(p.BillingCPU) || unusable(p.BillingGPU):
			return fmt.Errorf("partition %q: billing_cpu, billing_gpu: is not a number from 0", p.Name)
		}
	}
	return nil
}
