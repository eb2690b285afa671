package simulator

// Reason is why a policy did not start a waiting job.
type Reason uint8

// The reasons. The weaker ones, NoReason and Behind, give way to any other of the same run (Why.Note).
const (
	NoReason  Reason = iota // the policy has not looked at the job
	Behind                  // a job before it in its queue keeps it waiting
	Depth                   // a cycle does not look at as many jobs
	Limited                 // of its user, account or QOS
	OverQuota               // of its queue or of its cohort
	Reserved                // it would delay a job of higher priority
	Closed                  // the nodes are set apart for something else, or will be before its end
	Taken                   // its resources are not free
)

// Why notes the reason for which a policy does not start one job.
type Why struct {
	Job    ID
	Reason Reason
	Detail string // "" for none
}

// Reasoned is a policy that can say why it does not start a job.
type Reasoned interface {
	// Explain makes the policy note in w why its plans do not start w.Job; it is called before Reset. A policy that
	// notes decides as others.
	Explain(w *Why)
}

// Asks reports whether the reasons of a job are asked for. A nil Why asks for none.
func (w *Why) Asks(j ID) bool { return w != nil && w.Job == j }

// Note notes a reason.
func (w *Why) Note(r Reason, detail string) {
	if r != Behind || w.Reason == NoReason {
		w.Reason, w.Detail = r, detail
	}
}
