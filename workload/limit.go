package workload

import "fmt"

// A Limit bounds how much of a resource the running jobs of a scope hold at once: its own, and what it borrows of the
// own parts of others. The limits of a Site lend and borrow nothing.
type Limit struct {
	Scope
	Resource Resource `json:"resource"`
	Own      int64    `json:"own"`
	Lend     int64    `json:"lend,omitempty"`   // the most of Own that others may hold
	Borrow   int64    `json:"borrow,omitempty"` // the most beyond Own
}

// Allows reports whether a scope that holds some may hold more, if what it borrows is free.
func (l *Limit) Allows(held, more int64) bool { return held+more-l.Own <= l.Borrow }

// Beyond returns how many of more units a scope that holds some would borrow.
func (l *Limit) Beyond(held, more int64) int64 { return max(0, held+more-max(l.Own, held)) }

// Lends returns the idle part of Own that others may hold, of a scope that uses some.
func (l *Limit) Lends(used int64) int64 { return max(0, min(l.Lend, l.Own-used)) }

// A Scope is the jobs that a limit counts together: of a QOS, of an account, or of a tenant, which is an account.
type Scope struct {
	// QOS is a quality of service of the job or of its partition.
	QOS string `json:"qos,omitempty"`
	// Account is the account of the job or one above it, root for all of them, and User a user in it. A limit of a user
	// with a Partition is for the jobs there, in place of the user's others.
	Account   string `json:"account,omitempty"`
	User      string `json:"user,omitempty"`
	Partition string `json:"partition,omitempty"`
	// Each says that the jobs of each user, or of each account, of a QOS are counted by themselves.
	Each Each `json:"each,omitempty"`
}

// Resource is counted by a limit.
type Resource string

// The resources.
const (
	LimitedGPUs Resource = "gpus"
	LimitedJobs Resource = "jobs"
)

// Each divides a scope.
type Each string

// The divisions; empty is none.
const (
	EachUser    Each = "user"
	EachAccount Each = "account"
)

// validate names the first field that no scheduler can use.
func (l *Limit) validate() error {
	switch {
	case l.Resource != LimitedGPUs && l.Resource != LimitedJobs:
		return fmt.Errorf("resource: %q is neither gpus nor jobs", l.Resource)
	case l.Each != "" && l.Each != EachUser && l.Each != EachAccount:
		return fmt.Errorf("each: %q is neither user nor account", l.Each)
	case (l.QOS == "") == (l.Account == ""):
		return fmt.Errorf("qos, account: not exactly one is named")
	case l.QOS != "" && l.User != "":
		return fmt.Errorf("user: %q is of a QOS, not of an account", l.User)
	case l.Partition != "" && l.User == "":
		return fmt.Errorf("partition: %q is not of a user", l.Partition)
	case l.QOS == "" && l.Each != "":
		return fmt.Errorf("each: %q is of an account, not of a QOS", l.Each)
	case l.Own < 0:
		return fmt.Errorf("own: %d is negative", l.Own)
	case l.Lend != 0:
		return fmt.Errorf("lend: %d is of a site, whose scheduler lends nothing: leave it out", l.Lend)
	case l.Borrow != 0:
		return fmt.Errorf("borrow: %d is of a site, whose scheduler lends nothing: leave it out", l.Borrow)
	}
	return nil
}
