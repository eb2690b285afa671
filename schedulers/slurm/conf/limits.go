package conf

import (
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

// tally holds what is not simulated of QOS, accounts or users: one note for all that have the same.
type tally struct {
	texts []string
	of    map[string][]string // names, by text
}

func (t *tally) add(of, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if t.of[text] == nil {
		if t.texts = append(t.texts, text); t.of == nil {
			t.of = map[string][]string{}
		}
	}
	t.of[text] = append(t.of[text], of)
}

// noteAll notes a tally of many.
func (s *Site) noteAll(many string, t *tally) {
	for _, text := range t.texts {
		if of := t.of[text]; len(of) == 1 {
			s.note("%s: %s", of[0], text)
		} else {
			s.note("%d %s: %s", len(of), many, text)
		}
	}
}

// limit reads the limits of a QOS or association, and adds the ones that are not simulated to a tally under its name.
func (s *Site) limit(t *tally, of string, scope workload.Scope, r slurmtext.Record, limits []limitColumn,
	others []string,
) error {
	if !s.enforcesLimits() {
		return nil
	}
	for _, c := range limits {
		text := r[strings.ToLower(c.name)]
		scope.Each = c.each
		if c.jobs && text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", of, c.name, err)
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
				return fmt.Errorf("%s: %s: %w", of, c.name, err)
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
