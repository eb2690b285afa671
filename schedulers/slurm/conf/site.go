package conf

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Shown is the output of Slurm's commands about a cluster: scontrol show config, partition and node, and, with bars
// between the columns, sacctmgr show qos, assoc and event. The last three are empty where there is no slurmdbd.
type Shown struct {
	Config, Partitions, Nodes, QOS, Associations, Events []byte
	// Reservations are the output of [ReservationCommand], Past of [PastCommand], and Topology of [TopologyCommand].
	Reservations, Past, Topology []byte
	// Zone is the zone of times of events and reservations that name none; nil is UTC.
	Zone *time.Location
}

// Files are the output of [Commands], in their order.
func (s *Shown) Files() []*[]byte {
	return []*[]byte{&s.Config, &s.Partitions, &s.Nodes, &s.QOS, &s.Associations}
}

// Commands are the commands whose output [Shown] holds, by the names of its files.
var Commands = []Command{
	{"config.txt", []string{"scontrol", "show", "config"}},
	{"partitions.txt", []string{"scontrol", "show", "partition", "-o"}},
	{"nodes.txt", []string{"scontrol", "show", "node", "-o"}},
	{"qos.txt", []string{"sacctmgr", "-P", "show", "qos",
		columns(qosLimits, otherQOS, "Name", "Priority", "Preempt", "PreemptMode", "GraceTime", "Flags",
			"UsageFactor")}},
	{"assoc.txt", []string{"sacctmgr", "-P", "show", "assoc",
		columns(assocLimits, otherAssoc, "Cluster", "Account", "ParentName", "User", "Partition", "Share")}},
}

// Site is a cluster as its scheduler is simulated.
type Site struct {
	Config  *Config
	Cluster workload.Cluster
	// Current has the parameters of package slurm in force.
	Current space.Config
	// Outages are when nodes went down, were drained and came back, in order of time. Nodes are named by their numbers,
	// and times count from 1970.
	Outages []workload.Event
	// Notes list the differences between the cluster and its simulation, for people.
	Notes []string
	// concerns has, by the index of a note, which jobs it is about; a note without one is about all.
	concerns        map[int]func(*workload.Job) bool
	parentOf, qosOf map[string]string // of accounts and partitions, as of Weigh
}

// tunedSpace is the space of the tuned parameters.
var tunedSpace = func() *space.Space {
	s, err := space.New(slurm.Domain(), slurm.Rules())
	if err != nil {
		panic("conf: " + err.Error())
	}
	return s
}()

// Tuned are the ids of the parameters of package slurm.
func Tuned() []string {
	var ids []string
	for _, p := range slurm.Domain() {
		ids = append(ids, p.ID)
	}
	return ids
}

// Tuned returns the parameters that can be tuned here: the priorities of QOS that are set, and package slurm's,
// without the weight of GPUs where accounting does not count them, as slurmctld ends over it.
func (c *Config) Tuned() []string {
	lacks := c.Get("AccountingStorageTRES") != "" && !c.counts("gres/gpu")
	return append(c.QOS(),
		slices.DeleteFunc(Tuned(), func(id string) bool { return lacks && strings.HasPrefix(id, WeightTRES) })...)
}

// counts reports whether accounting counts a resource.
func (c *Config) counts(tres string) bool {
	return slices.ContainsFunc(strings.Split(c.Get("AccountingStorageTRES"), ","),
		func(t string) bool { return strings.EqualFold(t, tres) })
}

// Site reads the output. Errors about the text of a file name it.
func (s Shown) Site() (*Site, error) {
	c, err := ReadShown("config.txt", s.Config)
	if err != nil {
		return nil, err
	}
	out := &Site{Config: c}
	if out.Current, out.Notes, err = c.Current(); err != nil {
		return nil, err
	}
	settings, notes := c.Fixed()
	out.Notes = append(out.Notes, notes...)
	out.Cluster.Site.Settings = settings
	if err := out.partitions(s.Partitions); err != nil {
		return nil, err
	}
	out.limits()
	number, err := out.nodes(s.Nodes)
	if err != nil {
		return nil, err
	}
	if err := out.events(s.Events, number, cmp.Or(s.Zone, time.UTC)); err != nil {
		return nil, err
	}
	if err := out.reservations(s.Reservations, s.Past, number, cmp.Or(s.Zone, time.UTC)); err != nil {
		return nil, err
	}
	if err := out.topology(s.Topology, number); err != nil {
		return nil, err
	}
	if err := out.qos(s.QOS); err != nil {
		return nil, err
	}
	if err := out.accounts(s.Associations); err != nil {
		return nil, err
	}
	out.noteCancels()
	if err := out.Cluster.Site.Validate(); err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	if err := out.Cluster.Validate(); err != nil {
		return nil, fmt.Errorf("nodes.txt: %w", err)
	}
	return out, nil
}

// longest is the longest time limit of a partition that has one, in minutes.
func (s *Site) longest() float64 {
	longest := int64(0)
	for _, p := range s.Cluster.Site.Partitions {
		longest = max(longest, p.MaxMinutes)
	}
	return float64(longest)
}

// limits notes a backfill that does not see the end of long jobs.
func (s *Site) limits() {
	if window := s.Current.Get(SchedulerParameters + ".bf_window").Float(); s.longest() > window {
		s.note("bf_window is %.0f minutes, and jobs may run for %.0f: wide jobs may starve behind longer ones", window,
			s.longest())
	}
}

// leastInterval is the shortest pause between backfill cycles that is tried, in seconds: simulated cycles take no time,
// real ones load slurmctld.
const leastInterval = 10

// mostAge is the largest value tuned, in seconds, of parameters whose effect shows after that time: the hours that are
// simulated must tell. An operator may open more of them in the registration.
const mostAge = 3 * 3600

// Narrowed returns the settings in force, in the space as the site narrows it: backfill sees the end of the longest
// jobs and does not come more often than every ten seconds, and no age counts for more than three hours, unless it does
// so now.
func (s *Site) Narrowed() (space.Config, error) {
	least := map[string]float64{SchedulerParameters + ".bf_window": s.longest(),
		SchedulerParameters + ".bf_interval": leastInterval}
	most := map[string]float64{"PriorityMaxAge": mostAge, SchedulerParameters + ".bf_min_age_reserve": mostAge}
	params := slurm.Usual(func(id string) float64 { return s.Current.Get(id).Float() })
	for i := range params {
		p := &params[i]
		if low, ok := least[p.ID]; ok {
			now := s.Current.Get(p.ID)
			p.Min, p.Default = max(p.Min, min(low, now.Float())), now
		}
		if high, ok := most[p.ID]; ok {
			now := s.Current.Get(p.ID)
			if !s.Current.Has(p.ID) { // what it belongs to is off
				now = space.Num(high)
			}
			if p.Max = min(p.Max, max(high, now.Float())); p.Default.Float() > p.Max {
				p.Default = now
			}
		}
	}
	top := int64(10)
	for _, q := range s.Cluster.Site.QOS {
		top = max(top, q.Priority)
	}
	for _, id := range s.Config.QOS() {
		v, err := s.Config.Values([]string{id})
		if err != nil {
			return s.Current, err
		}
		params = append(params, around(id, v[id].Float(), float64(top)))
	}
	narrow, err := space.New(params, slurm.Rules())
	if err != nil {
		return s.Current, err
	}
	config, _ := narrow.Project(s.Current.Values())
	return config, nil
}

// around is the parameter of the priority of a QOS, from a tenth to ten times its value; one that is 0 is tried up to
// the largest.
func around(id string, now, top float64) space.Param {
	p, _ := slurm.SiteParam(id)
	p.Default, p.Log = space.Num(now), true
	if now > 0 {
		p.Min, p.Max, p.Special = math.Ceil(now/10), min(10*now, p.Max), nil
	} else {
		p.Max = min(top, p.Max)
	}
	return p
}

// TuneQOS opens the priorities of QOS to be tuned, of all if that is the name. They belong to the slurmdbd.
func (s *Site) TuneQOS(names []string) error {
	var known []string
	for _, q := range s.Cluster.Site.QOS {
		known = append(known, q.Name)
	}
	if slices.Equal(names, []string{"all"}) {
		names = known
	}
	for i, name := range names {
		at := slices.Index(known, name)
		id := slurm.QOSPriority(name)
		_, legal := slurm.QOSOf(id)
		switch {
		case at < 0:
			return fmt.Errorf("there is no QOS %q, only %s", name, strings.Join(known, ", "))
		case !legal:
			return fmt.Errorf("%q cannot be in the name of a parameter: name the QOS to tune, without it", name)
		case slices.Contains(names[:i], name):
			return fmt.Errorf("%q is listed twice", name)
		}
		s.Config.Lines = append(s.Config.Lines, Line{File: "qos.txt", Number: at + 2, Key: id,
			Value: strconv.FormatInt(s.Cluster.Site.QOS[at].Priority, 10)})
	}
	return nil
}

func (s *Site) note(format string, args ...any) { s.noteOn(nil, format, args...) }

// noteOn notes a difference that concerns some jobs; nil is all.
func (s *Site) noteOn(concerns func(*workload.Job) bool, format string, args ...any) {
	if s.Notes = append(s.Notes, fmt.Sprintf(format, args...)); concerns != nil {
		if s.concerns == nil {
			s.concerns = map[int]func(*workload.Job) bool{}
		}
		s.concerns[len(s.Notes)-1] = concerns
	}
}

// Weigh adds to notes that concern some jobs only their share of the GPU-hours of a history.
func (s *Site) Weigh(jobs []workload.Job) {
	s.index()
	all, of := 0., make([]float64, len(s.Notes))
	for i := range jobs {
		j := &jobs[i]
		if j.Status == workload.Pending {
			continue
		}
		hours := j.GPUs.Count() * j.Duration.Hours()
		all += hours
		for n, concerns := range s.concerns {
			if concerns(j) {
				of[n] += hours
			}
		}
	}
	for n := range s.concerns {
		if all > 0 {
			s.Notes[n] += fmt.Sprintf(" (%.3g %% of GPU-hours)", 100*of[n]/all)
		}
	}
}

// Current is the configuration in force. Values outside the space are brought to its nearest, and noted.
func (c *Config) Current() (space.Config, []string, error) {
	values, err := c.Values(Tuned())
	if err != nil {
		return space.Config{}, nil, err
	}
	config, changes := tunedSpace.Project(values)
	var notes []string
	for _, x := range changes {
		if !x.To.IsZero() && !x.From.IsZero() {
			notes = append(notes, fmt.Sprintf("%s is %s in slurm.conf, which is not in the range tuned here: %s is simulated",
				x.Param, x.From, x.To))
		}
	}
	if !slices.Contains(c.Tuned(), WeightTRES+".gpu") {
		notes = append(notes, "AccountingStorageTRES lacks gres/gpu, and jobs cannot be ordered by their GPUs: add it in "+
			"slurm.conf and restart slurmctld and slurmdbd")
	}
	if t := c.Get("PriorityType"); t != "" && t != "priority/multifactor" {
		notes = append(notes, fmt.Sprintf("PriorityType is %s, and weights have no effect: set priority/multifactor in "+
			"slurm.conf and restart slurmctld", t))
	}
	return config, notes, nil
}

// fixed are the keys about scheduling that are not tuned.
var fixed = []string{"PriorityType", "PriorityCalcPeriod", "PriorityWeightPartition", "PriorityWeightAssoc",
	"FairShareDampeningFactor", "PriorityUsageResetPeriod", "PriorityFlags", "PreemptType", "PreemptMode",
	"PreemptExemptTime", "JobRequeue", "SchedulerType", "SelectType", "SelectTypeParameters"}

// Fixed are the settings in force that are not tuned, as far as they are simulated, by key, with notes about the
// others.
func (c *Config) Fixed() (settings map[string]string, notes []string) {
	settings = map[string]string{}
	add := func(key string, items []string) {
		items = slices.DeleteFunc(items, func(item string) bool {
			s := slurm.Defaults()
			err := s.Set(key, item)
			if err != nil {
				notes = append(notes, fmt.Sprintf("not simulated: %v", err))
			}
			return err != nil
		})
		if len(items) > 0 {
			settings[key] = strings.Join(items, ",")
		}
	}
	for _, key := range fixed {
		if value := c.Get(key); value != "" {
			add(key, strings.Split(value, ","))
		}
	}
	site := c.Site(Tuned())
	for _, key := range []string{SchedulerParameters, WeightTRES} {
		add(key, site[key])
	}
	for _, key := range []string{"CompleteWait", "OverTimeLimit"} { // 0 is as without
		if n, _, _ := strings.Cut(c.Get(key), " "); n != "" && n != "0" {
			add(key, []string{c.Get(key)})
		}
	}
	return settings, notes
}

// Apply applies the configuration's lines about scheduling. The error names lines: the ones that are not simulated, a
// [slurm.NotSimulated] once all others are set, or one that Slurm would not accept.
func (c *Config) Apply(s *slurm.Settings) error {
	var all slurm.NotSimulated
	for _, l := range c.Lines {
		if counts, _ := c.Find(l.Key); counts != l || l.Value == "" || !schedules(l.Key) {
			continue
		}
		err := s.Set(l.Key, l.Value)
		var not slurm.NotSimulated
		if err != nil && !errors.As(err, &not) {
			return fmt.Errorf("%s:%d: %w", l.File, l.Number, err)
		}
		for _, what := range not {
			all = append(all, fmt.Sprintf("%s:%d: %s", l.File, l.Number, what))
		}
	}
	if all == nil {
		return nil
	}
	return all
}

// schedules reports whether a key is about scheduling.
func schedules(key string) bool {
	key = strings.ToLower(key)
	return slices.Contains([]string{"jobrequeue", "fairsharedampeningfactor", "completewait", "overtimelimit"}, key) ||
		slices.ContainsFunc([]string{"priority", "preempt", "schedulerparameters", "schedulertype", "selecttype"},
			func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// minutes reads a time limit in whole minutes, 0 if it is none.
func minutes(text string) (int64, error) {
	d, err := slurmtext.ParseLimit(text)
	return int64(math.Ceil(d.Minutes())), err
}

func (s *Site) partitions(text []byte) error {
	for _, r := range slurmtext.Records(string(text), "partitionname") {
		p := workload.Partition{Name: r["partitionname"]}
		in := func(j *workload.Job) bool { return j.Request().Partition == p.Name }
		fail := func(key string, err error) error {
			return fmt.Errorf("partitions.txt: partition %s: %s: %q: %w", p.Name, key, r[key], err)
		}
		var err error
		if p.DefaultMinutes, err = minutes(r["defaulttime"]); err != nil {
			return fail("defaulttime", err)
		}
		if p.MaxMinutes, err = minutes(r["maxtime"]); err != nil {
			return fail("maxtime", err)
		}
		for key, to := range map[string]*int64{"prioritytier": &p.PriorityTier, "priorityjobfactor": &p.JobFactor} {
			if r[key] == "" {
				continue
			}
			if *to, err = strconv.ParseInt(r[key], 10, 64); err != nil {
				return fail(key, err)
			}
		}
		p.PreemptMode = s.preemptMode("partition "+p.Name, r["preemptmode"])
		if r["qos"] != "N/A" {
			p.QOS = r["qos"]
		}
		if over := r["overtimelimit"]; over != "" && over != "NONE" {
			s.noteOn(in, "partition %s: OverTimeLimit %s is not simulated, only that of slurm.conf", p.Name, over)
		}
		if p.Exclusive = strings.EqualFold(r["oversubscribe"], "EXCLUSIVE"); p.Exclusive {
			r["oversubscribe"] = ""
		}
		for _, k := range []struct{ key, name, plain string }{{"oversubscribe", "OverSubscribe", "NO"},
			{"gracetime", "GraceTime", "0"},
			{"exclusiveuser", "ExclusiveUser", "NO"}, {"maxnodes", "MaxNodes", "UNLIMITED"}, {"lln", "LLN", "NO"},
			{"maxcpuspernode", "MaxCPUsPerNode", "UNLIMITED"}, {"reqresv", "ReqResv", "NO"}} {
			if v := r[k.key]; v != "" && v != k.plain {
				s.noteOn(in, "partition %s: %s=%s is not simulated", p.Name, k.name, v)
			}
		}
		for item := range strings.SplitSeq(r["tresbillingweights"], ",") {
			name, value, _ := strings.Cut(item, "=")
			to := map[string]*float64{"cpu": &p.BillingCPU, "gres/gpu": &p.BillingGPU}[strings.ToLower(name)]
			if to == nil {
				if item != "" {
					s.noteOn(in, "partition %s: TRESBillingWeights %s is not simulated", p.Name, item)
				}
				continue
			}
			if *to, err = number(value); err != nil {
				return fail("tresbillingweights", err)
			}
		}
		s.Cluster.Site.Partitions = append(s.Cluster.Site.Partitions, p)
	}
	if len(s.Cluster.Site.Partitions) == 0 {
		return fmt.Errorf("partitions.txt: has no partition: write the output of scontrol show partition into it")
	}
	return nil
}

// noteCancels notes that jobs are cancelled when they are preempted.
func (s *Site) noteCancels() {
	cancels := strings.EqualFold(s.Config.Get("PreemptMode"), string(workload.PreemptCancel))
	switch s.Config.Get("PreemptType") {
	case "preempt/qos":
		cancels = cancels || slices.ContainsFunc(s.Cluster.Site.QOS,
			func(q workload.QOS) bool { return q.PreemptMode == workload.PreemptCancel })
	case "preempt/partition_prio":
		cancels = cancels || slices.ContainsFunc(s.Cluster.Site.Partitions,
			func(p workload.Partition) bool { return p.PreemptMode == workload.PreemptCancel })
	default:
		return
	}
	if cancels {
		s.note("PreemptMode=CANCEL: a job that is cancelled counts with the time until then, and settings that " +
			"cancel more jobs look better by it: compare the number of cancelled jobs")
	}
}

// number reads a number that is not negative.
func number(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err == nil && !(x >= 0 && x <= math.MaxFloat64) {
		err = fmt.Errorf("%q is not a number from 0", text)
	}
	return x, err
}

// preemptMode is the mode of a partition or QOS, empty if it is the cluster's.
func (s *Site) preemptMode(of, text string) workload.PreemptMode {
	mode := workload.PreemptMode(strings.ToLower(text))
	switch {
	case text == "" || mode == "cluster" || strings.EqualFold(text, s.Config.Get("PreemptMode")):
		return ""
	case mode == workload.PreemptOff || mode == workload.PreemptRequeue || mode == workload.PreemptCancel:
		return mode
	}
	s.note("%s: PreemptMode=%s is not simulated", of, text)
	return ""
}

// nodes reads the nodes, and returns their numbers by name.
func (s *Site) nodes(text []byte) (number map[string]int, err error) {
	type key struct {
		model, partitions    string
		gpus                 int
		cpus, memory, weight int64
	}
	at := map[key]int{}
	var names [][]string // by group
	bare, down, mixed := 0, 0, 0
	var uncounted []string // types of MIG instances that accounting does not count
	for _, r := range slurmtext.Records(string(text), "nodename") {
		name := r["nodename"]
		state := slurmtext.ParseNodeState(r["state"])
		if state == slurmtext.Future {
			continue
		}
		gpus, err := slurmtext.ParseNodeGPUs(r["gres"])
		k := key{model: gpus.Model, partitions: r["partitions"], gpus: gpus.GPUs.NearestGPUs()}
		if err == nil && k.gpus > workload.MaxGPUsPerNode {
			err = fmt.Errorf("%d GPUs are more than %d", k.gpus, workload.MaxGPUsPerNode)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("nodes.txt: node %s: Gres: %w", name, err)
		case k.gpus == 0:
			bare++
			continue
		case state != slurmtext.Up:
			down++
		}
		for _, profile := range gpus.MIG {
			if !s.Config.counts("gres/gpu:" + profile) {
				uncounted = append(uncounted, "gres/gpu:"+profile)
			}
		}
		for _, of := range []struct {
			to         *int64
			name, text string
		}{{&k.cpus, "CPUTot", r["cputot"]}, {&k.memory, "RealMemory", r["realmemory"]},
			{&k.weight, "Weight", cmp.Or(r["weight"], "0")}} {
			if *of.to, err = strconv.ParseInt(of.text, 10, 40); err != nil {
				return nil, fmt.Errorf("nodes.txt: node %s: %s: %w", name, of.name, err)
			}
		}
		k.memory <<= 20 // from mebibytes
		if k.model == "" && strings.Count(r["gres"], "gpu:") > 1 && len(gpus.MIG) == 0 {
			mixed++
		}
		i, there := at[k]
		if !there {
			i = len(s.Cluster.Groups)
			at[k] = i
			names = append(names, nil)
			s.Cluster.Groups = append(s.Cluster.Groups, workload.NodeGroup{Name: name, GPUsPerNode: k.gpus,
				GPUModel: k.model, Partition: k.partitions, CPUs: int(k.cpus), Memory: k.memory, Weight: k.weight})
		}
		s.Cluster.Groups[i].Nodes++
		names[i] = append(names[i], name)
	}
	if len(s.Cluster.Groups) == 0 {
		return nil, fmt.Errorf("nodes.txt: has no node with GPUs: write the output of scontrol show node into it")
	}
	if groups := s.Cluster.Groups; !slices.ContainsFunc(groups,
		func(g workload.NodeGroup) bool { return g.Weight != groups[0].Weight }) {
		for i := range groups {
			groups[i].Weight = 0 // only differences matter
		}
	}
	if mixed > 0 {
		s.note("%d nodes have GPUs of several types: jobs that ask for one are simulated on any node", mixed)
		for i := range s.Cluster.Groups {
			s.Cluster.Groups[i].GPUModel = ""
		}
	}
	if bare > 0 {
		s.note("%d nodes without GPUs are left out; the job size factor counts them on the real cluster", bare)
	}
	if down > 0 {
		s.note("%d nodes are down or drained now: they are counted, and out in the times of %s", down,
			EventCommand.File)
	}
	if slices.Sort(uncounted); len(uncounted) > 0 {
		s.note("jobs on MIG instances are recorded as jobs of whole GPUs: add %s to AccountingStorageTRES in slurm.conf, "+
			"and restart slurmctld and slurmdbd", strings.Join(slices.Compact(uncounted), ","))
	}
	number = map[string]int{}
	for n, name := range slices.Concat(names...) {
		number[name] = n
	}
	return number, nil
}

func (s *Site) qos(text []byte) error {
	rows, err := slurmtext.Table(string(text), "name", "priority")
	if err != nil {
		return fmt.Errorf("qos.txt:%w", err)
	}
	var unlike tally
	for _, r := range rows {
		q := workload.QOS{Name: r["name"]}
		scope := workload.Scope{QOS: q.Name}
		if q.Priority, err = strconv.ParseInt(r["priority"], 10, 64); err != nil {
			return fmt.Errorf("qos.txt: %s: Priority: %w", q.Name, err)
		}
		for of := range strings.SplitSeq(r["preempt"], ",") {
			if of != "" {
				q.Preempt = append(q.Preempt, of)
			}
		}
		if mode := r["preemptmode"]; !strings.EqualFold(mode, string(workload.PreemptOff)) { // off is as cluster
			q.PreemptMode = s.preemptMode("QOS "+q.Name, mode)
		}
		if grace := r["gracetime"]; strings.Trim(grace, "0:-") != "" {
			unlike.add(scope, "GraceTime=%s is not simulated", grace)
		}
		if flags := r["flags"]; flags != "" && flags != "DenyOnLimit" {
			unlike.add(scope, "Flags=%s is not simulated", flags)
		}
		if text := r["usagefactor"]; text != "" && text != "1.000000" {
			factor, err := number(text)
			if err != nil {
				return fmt.Errorf("qos.txt: %s: UsageFactor: %w", q.Name, err)
			}
			q.UsageFactor = &factor
		}
		if err := s.limit(&unlike, scope, r, qosLimits, otherQOS); err != nil {
			return fmt.Errorf("qos.txt: %w", err)
		}
		s.Cluster.Site.QOS = append(s.Cluster.Site.QOS, q)
	}
	s.noteAll("QOS", &unlike)
	return nil
}

// accounts reads associations. The account root is the root of accounts.
func (s *Site) accounts(text []byte) error {
	rows, err := slurmtext.Table(string(text), "cluster", "account", "user", "share")
	if err != nil {
		return fmt.Errorf("assoc.txt:%w", err)
	}
	var parents, ofPartitions []workload.Scope
	var ofAccounts, ofUsers tally
	name := func(account string) string {
		if account == "root" {
			return ""
		}
		return account
	}
	for _, r := range rows {
		if !strings.EqualFold(r["cluster"], s.Config.Get("ClusterName")) {
			continue
		}
		a := workload.Account{Name: name(r["account"]), Parent: name(r["parentname"]), User: r["user"]}
		scope := workload.Scope{Account: r["account"], User: a.User, Partition: r["partition"]}
		unlike, limits, others := &ofAccounts, assocLimits[:2], otherGroup
		if a.User != "" {
			a.Parent = ""
			unlike, limits, others = &ofUsers, assocLimits, otherAssoc
		}
		if err := s.limit(unlike, scope, r, limits, others); err != nil {
			return fmt.Errorf("assoc.txt: %w", err)
		}
		if scope.Partition != "" {
			ofPartitions = append(ofPartitions, scope)
			continue
		}
		if a.Name == "" && a.User == "" {
			continue
		}
		if a.Shares, err = number(r["share"]); err != nil {
			if r["share"] != "parent" {
				return fmt.Errorf("assoc.txt: account %s, user %q: Share: %w", a.Name, a.User, err)
			}
			a.Shares = 1
			parents = append(parents, scope)
		}
		s.Cluster.Site.Accounts = append(s.Cluster.Site.Accounts, a)
	}
	s.noteAll("accounts", &ofAccounts)
	s.noteAll("users", &ofUsers)
	if n := len(ofPartitions); n > 0 {
		s.noteOn(s.of(ofPartitions), "%d associations are of one partition: their shares are not simulated", n)
	}
	if n := len(parents); n > 0 {
		s.noteOn(s.of(parents),
			"%d associations have Fairshare=parent, which is not simulated: they have a share of 1", n)
	}
	return nil
}

// Owned returns the file that changes nothing of the settings in force, for AutoSched to change: the settings that are
// tuned, with the site's own options.
func (c *Config) Owned() ([]byte, error) { return c.owned(c.Tuned(), nil) }

// Elsewhere are the lines outside one file that set keys which tuned parameters need.
func (c *Config) Elsewhere(include string) []Line {
	keys := map[string]bool{}
	for _, id := range Tuned() {
		key, _, _ := strings.Cut(id, ".")
		keys[strings.ToLower(key)] = true
	}
	var out []Line
	for _, l := range c.Lines {
		if keys[strings.ToLower(l.Key)] && Real(l.File) != Real(include) {
			out = append(out, l)
		}
	}
	return out
}
