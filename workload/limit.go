package workload

import "fmt"

// A Limit bounds how much of a resource the running jobs of a scope hold at once.
type Limit struct {
	Scope
	Resource Resource `json:"resource"`
	Own      int64    `json:"own"` // the most that the scope holds
}

// A Scope is the jobs that a limit counts together: of a QOS, or of an account.
type Scope struct {
	// QOS is a quality of service of the job or of its partition.
	QOS string `json:"qos,omitempty"`
	// Account is the account of the job or one above it, and User a user in it.
	Account string `json:"account,omitempty"`
	User    string `json:"user,omitempty"`
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
	case l.QOS == "" && l.Each != "":
		return fmt.Errorf("each: %q is of an account, not of a QOS", l.Each)
	case l.Own < 0:
		return fmt.Errorf("own: %d is negative", l.Own)
	}
	return nil
}
