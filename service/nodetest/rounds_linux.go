package nodetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Cluster is a service of several nodes under a load.
type Cluster struct {
	Net   *Net
	Nodes []*Node
	Load  *Load
	// Leader returns the node that leads, -1 if none says so.
	Leader func() int
	// Behind reports whether a node has yet to apply more than some changes, or does not know.
	Behind func(some int) bool
	// Engine lists the ports of the traffic by which nodes agree.
	Engine []int
	// Damage chooses the files that a fault may damage.
	Damage func(path string) bool
	Random *rand.Rand
	Wrong  *Violations
	// Stale is how old a read may be.
	Stale time.Duration

	// Damaged has the places at which files of nodes were damaged.
	Damaged map[int]string

	first map[string]Offer
}

// Fault is a kind of fault at one node, and its end.
type Fault struct {
	Kind string
	// Hold is how long it lasts.
	Hold time.Duration
	// begin injects it; the fault ends when end is called.
	begin func(c *Cluster, ctx context.Context, node int) (end func() error, note string, err error)
}

// Faults lists the kinds of faults. A pause of a process lasts pause, others hold or half of it.
func Faults(hold, pause time.Duration) []Fault {
	peers := func(c *Cluster, node int, cut func(other int) error) error {
		var errs []error
		for other := range c.Nodes {
			if other != node {
				errs = append(errs, cut(other))
			}
		}
		return errors.Join(errs...)
	}
	jump := func(by time.Duration) func(*Cluster, context.Context, int) (func() error, string, error) {
		return func(c *Cluster, _ context.Context, node int) (func() error, string, error) {
			n := c.Nodes[node]
			return func() error { return n.SetClock(0) }, "", n.SetClock(by)
		}
	}
	return []Fault{
		{"kill", hold, func(c *Cluster, _ context.Context, node int) (func() error, string, error) {
			n := c.Nodes[node]
			return n.Start, "", n.Stop(syscall.SIGKILL)
		}},
		{"pause", pause, func(c *Cluster, _ context.Context, node int) (func() error, string, error) {
			n := c.Nodes[node]
			return func() error { return n.Signal(syscall.SIGCONT) }, "", n.Signal(syscall.SIGSTOP)
		}},
		{"partition, both ways", hold, func(c *Cluster, _ context.Context, node int) (func() error, string, error) {
			both := func(rule func(from, to int, ports ...int) error) error {
				return peers(c, node, func(other int) error {
					return errors.Join(rule(node, other), rule(other, node))
				})
			}
			return func() error { return both(c.Net.Repair) }, "", both(c.Net.Cut)
		}},
		{"partition, one way", hold, func(c *Cluster, _ context.Context, node int) (func() error, string, error) {
			one := func(rule func(from, to int, ports ...int) error) error {
				return peers(c, node, func(other int) error { return rule(node, other) })
			}
			return func() error { return one(c.Net.Repair) }, "", one(c.Net.Cut)
		}},
		{"partition, lease only", hold, func(c *Cluster, _ context.Context, node int) (func() error, string, error) {
			lease := func(rule func(from, to int, ports ...int) error) error {
				return peers(c, node, func(other int) error { return rule(node, other, c.Engine...) })
			}
			return func() error { return lease(c.Net.Repair) }, "", lease(c.Net.Cut)
		}},
		{"unplugged", hold, func(c *Cluster, _ context.Context, node int) (func() error, string, error) {
			return func() error { return c.Net.Unplug(node, false) }, "", c.Net.Unplug(node, true)
		}},
		{"clock, a day ahead", hold / 2, jump(26 * time.Hour)},
		{"clock, a day behind", hold / 2, jump(-26 * time.Hour)},
		{"disk full", hold, func(c *Cluster, _ context.Context, node int) (func() error, string, error) {
			d := c.Nodes[node].Disk
			return d.Drain, "", d.Fill()
		}},
		{"disk slow", hold, func(c *Cluster, ctx context.Context, node int) (func() error, string, error) {
			slow, cancel := context.WithCancel(ctx)
			done := make(chan error, 1)
			random := rand.New(rand.NewPCG(c.Random.Uint64(), 0))
			go func() { done <- c.Nodes[node].Disk.Slow(slow, time.Second, random) }()
			return func() error { cancel(); return <-done }, "", nil
		}},
		{"file damaged", hold / 2, func(c *Cluster, _ context.Context, node int) (func() error, string, error) {
			n := c.Nodes[node]
			if err := n.Stop(syscall.SIGKILL); err != nil {
				return nil, "", err
			}
			where, err := n.Disk.Flip(c.Random, c.Damage)
			c.Damaged[node] = where
			return n.Start, where, err
		}},
	}
}

// PowerCut is the loss of the power of all nodes at once, for a moment. It leaves a share of the blocks that were not
// flushed. The disks must be of [NewCutDisk].
func PowerCut(percent int) Fault {
	return Fault{"power cut", 0, func(c *Cluster, _ context.Context, _ int) (func() error, string, error) {
		// Nothing that is answered after the cut reaches a client.
		for _, n := range c.Nodes {
			if err := c.Net.Unplug(n.Index, true); err != nil {
				return nil, "", err
			}
		}
		var images []map[int64]*[blockSize]byte
		for _, n := range c.Nodes {
			images = append(images, n.Disk.Cut(c.Random, percent))
		}
		for _, n := range c.Nodes { // a process may keep the disks of others mounted
			if err := n.Stop(syscall.SIGKILL); err != nil {
				return nil, "", err
			}
		}
		for i, n := range c.Nodes {
			if err := errors.Join(n.Disk.Restart(images[i]), c.Net.Unplug(i, false)); err != nil {
				return nil, "", err
			}
		}
		return func() error {
			var errs []error
			for _, n := range c.Nodes {
				errs = append(errs, n.Start())
			}
			return errors.Join(errs...)
		}, fmt.Sprint(percent, " % of the blocks that were not flushed"), nil
	}}
}

// Restart stops a node in order, which next names, and starts it again after change.
func Restart(kind string, next func(c *Cluster) int, change func(node *Node) error) Fault {
	return Fault{kind, 0, func(c *Cluster, _ context.Context, _ int) (func() error, string, error) {
		n := c.Nodes[next(c)]
		err := n.Stop(syscall.SIGTERM)
		if err == nil {
			err = change(n)
		}
		return n.Start, fmt.Sprint("node ", n.Index), err
	}}
}

// Begin registers the schedulers, and waits until every node answers.
func (c *Cluster) Begin(ctx context.Context) error {
	if err := c.Load.Register(ctx); err != nil {
		return err
	}
	c.first = map[string]Offer{}
	for _, id := range Schedulers {
		o, err := c.Load.Current(ctx, id)
		if err != nil {
			return err
		}
		c.first[id] = o
	}
	if late := c.answers(ctx, time.Minute); late >= 0 {
		return fmt.Errorf("node %d does not answer", late)
	}
	return nil
}

// answers waits until every node answers a read, and returns one that does not.
func (c *Cluster) answers(ctx context.Context, within time.Duration) int {
	deadline := time.Now().Add(within)
	for n := range c.Nodes {
		for {
			once, cancel := context.WithTimeout(ctx, attempt)
			_, err := current(once, c.Load.Conns[n], Pinned)
			cancel()
			if err == nil {
				break
			}
			if ctx.Err() != nil || time.Now().After(deadline) {
				return n
			}
			wait(ctx, 50*time.Millisecond)
		}
	}
	return -1
}

// around is how long the load runs before and after a fault.
const around = 2 * time.Second

// Round runs a round: load, fault, end of the fault, check. atLeader has the fault at the leader.
func (c *Cluster) Round(ctx context.Context, f Fault, atLeader bool) (r Round, err error) {
	r.Kind = f.Kind
	began, stop, done := c.Load.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		c.Load.Run(ctx, stop)
	}()
	finish := func() {
		if stop != nil {
			close(stop)
			<-done
			stop = nil
		}
	}
	defer finish()
	ended := c.ended()
	wait(ctx, around)
	node := c.Random.IntN(len(c.Nodes))
	if leader := c.Leader(); leader >= 0 {
		switch {
		case atLeader:
			node = leader
		case node == leader:
			node = (node + 1) % len(c.Nodes)
		}
		r.Leads = node == leader
	}
	fault := c.Load.Now()
	end, note, err := f.begin(c, ctx, node)
	if err != nil {
		return r, fmt.Errorf("%s at node %d: %w", f.Kind, node, err)
	}
	r.Note = note
	wait(ctx, f.Hold)
	over := time.Now()
	if err := end(); err != nil {
		return r, fmt.Errorf("the end of %s at node %d: %w", f.Kind, node, err)
	}
	whole := c.revive(ctx, &r, node, f.Kind == "file damaged")
	r.Whole = time.Since(over)
	if !whole { // the checks below ask the nodes
		r.Texts, r.Violations = c.Wrong.Take()
		return r, ctx.Err()
	}
	wait(ctx, around)
	finish()
	o := c.Load.Outages(fault)
	r.Node, r.Client = o[0], o[1]
	c.Load.Resend(ctx, 100)
	if r.Operations, err = c.Load.Settled(ctx, c.first, began, c.Stale); err != nil {
		c.Wrong.Addf("after the round: %v", err)
	}
	r.Counts = c.Load.Counts()
	r.Ended = c.ended() - ended
	r.Texts, r.Violations = c.Wrong.Take()
	return r, ctx.Err()
}

func (c *Cluster) ended() (n int) {
	for _, node := range c.Nodes {
		n += node.Ended()
	}
	return n
}

// revive starts processes that ended, and waits until every node answers. A node whose files were damaged may refuse
// to start; it then begins with an empty disk, as an operator would have it. false means that not every node answers.
func (c *Cluster) revive(ctx context.Context, r *Round, node int, damaged bool) bool {
	const patient = time.Minute
	for deadline := time.Now().Add(patient); ; {
		for _, n := range c.Nodes {
			if n.Running() {
				continue
			}
			if err := n.Start(); err != nil {
				c.Wrong.Addf("node %d: %v", n.Index, err)
			}
		}
		late := c.answers(ctx, 5*time.Second)
		switch {
		case late < 0 && c.whole() || ctx.Err() != nil:
			return true
		case damaged && late == node && r.Replaced == 0 && time.Until(deadline) < patient-15*time.Second:
			r.Replaced++
			if err := errors.Join(c.Nodes[node].Stop(syscall.SIGKILL), empty(c.Nodes[node].Disk.Dir)); err != nil {
				c.Wrong.Addf("node %d: %v", node, err)
			}
			deadline = time.Now().Add(patient)
		case time.Now().After(deadline):
			c.Wrong.Addf("%v after %s not every node runs, answers and has all changes (node %d, -1 for all)", patient,
				r.Kind, late)
			return false
		}
		wait(ctx, 50*time.Millisecond)
	}
}

// underLoad is how many changes a node may have yet to apply while others are made.
const underLoad = 20

// whole reports whether every process runs and none is far behind.
func (c *Cluster) whole() bool {
	for _, n := range c.Nodes {
		if !n.Running() {
			return false
		}
	}
	return !c.Behind(underLoad)
}

// empty removes all that is in a directory.
func empty(dir string) error {
	all, err := os.ReadDir(dir)
	for _, e := range all {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
