package conf

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

// limitColumn is a column of sacctmgr about a limit.
type limitColumn struct {
	name string
	each workload.Each
	jobs bool // of running jobs; else of resources
}

// qosLimits and assocLimits are the limits that are simulated. Those of accounts that are not for all of its jobs
// together are shown with its users.
var (
	qosLimits = []limitColumn{{name: "GrpTRES"}, {name: "GrpJobs", jobs: true},
		{name: "MaxTRESPU", each: workload.EachUser}, {name: "MaxTRESPA", each: workload.EachAccount},
		{name: "MaxJobsPU", each: workload.EachUser, jobs: true},
		{name: "MaxJobsPA", each: workload.EachAccount, jobs: true}}
	assocLimits = []limitColumn{{name: "GrpTRES"}, {name: "GrpJobs", jobs: true}, {name: "MaxJobs", jobs: true}}
)

// otherGroup are columns about limits of all jobs of an account or QOS that are not simulated, otherAssoc and otherQOS
// with the further ones of users and QOS.
var (
	otherGroup  = []string{"GrpTRESMins", "GrpTRESRunMins", "GrpWall", "GrpSubmit", "GrpJobsAccrue"}
	otherLimits = append([]string{"MaxTRES", "MaxTRESMins", "MaxWall"}, otherGroup...)
	otherAssoc  = append([]string{"MaxSubmit", "MaxJobsAccrue"}, otherLimits...)
	otherQOS    = append([]string{"MaxSubmitPU", "MaxSubmitPA", "MaxTRESPerNode", "MaxTRESRunMinsPU", "MaxTRESRunMinsPA",
		"MaxJobsAccruePU", "MaxJobsAccruePA", "MinTRES", "LimitFactor"}, otherLimits...)
)

// columns lists columns for option format of sacctmgr.
func columns(limits []limitColumn, others []string, more ...string) string {
	for _, l := range limits {
		more = append(more, l.name)
	}
	return "format=" + strings.Join(append(more, others...), ",")
}

// tally has the notes on QOS, accounts or users: one for all that have the same settings that are not simulated.
type tally struct {
	texts []string
	of    map[string][]workload.Scope // by text
}

func (t *tally) add(of workload.Scope, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if t.of[text] == nil {
		if t.texts = append(t.texts, text); t.of == nil {
			t.of = map[string][]workload.Scope{}
		}
	}
	t.of[text] = append(t.of[text], of)
}

// noteAll notes a tally of many.
func (s *Site) noteAll(many string, t *tally) {
	for _, text := range t.texts {
		if of := t.of[text]; len(of) == 1 {
			s.noteOn(s.of(of), "%s: %s", named(of[0]), text)
		} else {
			s.noteOn(s.of(of), "%d %s: %s", len(of), many, text)
		}
	}
}

// named is the name of a scope, for people.
func named(s workload.Scope) string {
	switch {
	case s.QOS != "":
		return "QOS " + s.QOS
	case s.Partition != "":
		return "user " + s.User + " of account " + s.Account + " in partition " + s.Partition
	case s.User != "":
		return "user " + s.User + " of account " + s.Account
	}
	return "account " + s.Account
}

// of reports whether a job is in one of some scopes.
func (s *Site) of(scopes []workload.Scope) func(*workload.Job) bool {
	in := map[workload.Scope]bool{}
	for _, x := range scopes {
		in[workload.Scope{QOS: x.QOS, Account: x.Account, User: x.User, Partition: x.Partition}] = true
	}
	return func(j *workload.Job) bool {
		r := j.Request()
		account := cmp.Or(r.Account, j.Tenant)
		if in[workload.Scope{QOS: r.QOS}] || in[workload.Scope{Account: account, User: j.User}] ||
			in[workload.Scope{Account: account, User: j.User, Partition: r.Partition}] || in[workload.Scope{Account: "root"}] ||
			in[workload.Scope{QOS: s.qosOf[r.Partition]}] { // no scope is empty
			return true
		}
		for range len(s.parentOf) + 1 { // a cycle ends, too
			if in[workload.Scope{Account: account}] {
				return true
			}
			parent, ok := s.parentOf[account]
			if !ok {
				break
			}
			account = parent
		}
		return false
	}
}

// index sets the parents of accounts and the QOS of partitions, of equal names those of the first.
func (s *Site) index() {
	s.parentOf, s.qosOf = map[string]string{}, map[string]string{}
	for _, a := range slices.Backward(s.Cluster.Site.Accounts) {
		if a.User == "" {
			s.parentOf[a.Name] = a.Parent
		}
	}
	for i := range slices.Backward(s.Cluster.Site.Partitions) {
		s.qosOf[s.Cluster.Site.Partitions[i].Name] = s.Cluster.Site.Partitions[i].QOS
	}
}

// limit reads the limits of a QOS or association, and adds the ones that are not simulated to a tally under it.
func (s *Site) limit(t *tally, of workload.Scope, r slurmtext.Record, limits []limitColumn,
	others []string,
) error {
	if !s.enforcesLimits() {
		return nil
	}
	scope := of
	for _, c := range limits {
		text := r[strings.ToLower(c.name)]
		scope.Each = c.each
		if c.jobs && text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", named(of), c.name, err)
			}
			s.bound(workload.Limit{Scope: scope, Resource: workload.LimitedJobs, Own: n})
			continue
		}
		for item := range strings.SplitSeq(text, ",") {
			name, value, _ := strings.Cut(item, "=")
			if !strings.EqualFold(name, "gres/gpu") {
				if item != "" {
					t.add(of, "%s=%s is not simulated, and jobs that it holds back start", c.name, item)
				}
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", named(of), c.name, err)
			}
			s.bound(workload.Limit{Scope: scope, Resource: workload.LimitedGPUs, Own: n})
		}
	}
	for _, name := range others {
		if v := r[strings.ToLower(name)]; v != "" && v != "1.000000" {
			t.add(of, "%s=%s is not simulated", name, v)
		}
	}
	return nil
}

// enforcesLimits reports whether slurmctld obeys limits.
func (s *Site) enforcesLimits() bool {
	enforced := strings.Split(strings.ToLower(s.Config.Get("AccountingStorageEnforce")), ",")
	return slices.Contains(enforced, "limits") || slices.Contains(enforced, "safe") || slices.Contains(enforced, "all")
}

// bound adds a limit, the lesser of two of one scope.
func (s *Site) bound(l workload.Limit) {
	limits := s.Cluster.Site.Limits
	for i := range limits {
		if limits[i].Scope == l.Scope && limits[i].Resource == l.Resource {
			limits[i].Own = min(limits[i].Own, l.Own)
			return
		}
	}
	s.Cluster.Site.Limits = append(limits, l)
}
