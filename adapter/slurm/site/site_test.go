package site_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/adapter/site"
	slurmsite "github.com/autosched/autosched/adapter/slurm/site"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/space"
)

// listings is a folder with the output of Slurm's commands.
const listings = "../../../schedulers/slurm/conf/testdata"

func encode(r site.Registration) ([]byte, error) { return json.Marshal(r.Tuned) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFolder: a written folder is complete, and lacks each of its files in turn.
func TestFolder(t *testing.T) {
	d, err := slurmsite.Describe(t.Context(), slurmsite.Options{Saved: listings, TuneQOS: []string{"high"}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := d.Write(dir, encode); err != nil {
		t.Fatal(err)
	}
	folder := site.Folder(dir)
	missing := folder.Missing(slurmsite.Settings)
	if missing != "" || !folder.Has(site.NodeEvents) || len(d.Files) != 5 {
		t.Errorf("%s is missing; files are %q", missing, d.Files)
	}
	if d.Read || d.Present || d.Include != "include autosched.conf" ||
		d.Path != "/etc/slurm/autosched/autosched.conf" || d.Link != "ln -s autosched/autosched.conf /etc/slurm/autosched.conf" {
		t.Errorf("%+v", d)
	}
	text, err := os.ReadFile(folder.Path(site.Scheduler))
	var tuned []string
	err = errors.Join(err, json.Unmarshal(text, &tuned))
	if err != nil || !slices.Contains(tuned, "QOS.high.Priority") {
		t.Errorf("%v: the registration has %q", err, tuned)
	}
	for _, name := range []string{site.Cluster, site.Current, site.Scheduler, slurmsite.Settings} {
		if err := os.Rename(folder.Path(name), folder.Path("away")); err != nil {
			t.Fatal(err)
		}
		if missing := folder.Missing(slurmsite.Settings); missing != folder.Path(name) {
			t.Errorf("without %s the folder lacks %q", name, missing)
		}
		if err := os.Rename(folder.Path("away"), folder.Path(name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCloud: CLOUD nodes that are off, which no command lists, are noted by name.
func TestCloud(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slurm.conf")
	write(t, path, "ClusterName=emulated\nNodeName=cl[1-2] State=CLOUD Gres=gpu:8\n")
	d, err := slurmsite.Describe(t.Context(), slurmsite.Options{Saved: listings, Conf: path})
	if err != nil || !strings.Contains(strings.Join(d.Notes, "\n"), "2 CLOUD nodes are off and not listed, and their "+
		"GPUs are missing: cl1,cl2") {
		t.Errorf("%v %q", err, d.Notes)
	}
}

// TestConf: lines of slurm.conf that set tuned parameters are to move, unless the included file has them.
func TestConf(t *testing.T) {
	dir := t.TempDir()
	path, include := filepath.Join(dir, "slurm.conf"), filepath.Join(dir, "own.conf")
	write(t, path, "ClusterName=emulated\nPriorityWeightAge=1000\nMailProg=/bin/true\n"+
		"SchedulerParameters=bf_interval=20\ninclude none.conf\ninclude "+include+"\n")
	write(t, include, "PriorityWeightFairshare=5\n")
	d, err := slurmsite.Describe(t.Context(), slurmsite.Options{Saved: listings, Conf: path, Include: include})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{path + ":2: PriorityWeightAge", path + ":4: SchedulerParameters"}
	if !slices.Equal(d.Move, want) || !d.Read || !d.Present || d.Include != "include "+include {
		t.Errorf("%+v, want to move %q", d, want)
	}
	if !strings.Contains(strings.Join(d.Notes, "\n"), "none.conf, which is not there") {
		t.Errorf("notes: %q", d.Notes)
	}
}

// TestNoConf: a site whose slurm.conf is not known has a note that says so.
func TestNoConf(t *testing.T) {
	saved := t.TempDir()
	if err := os.CopyFS(saved, os.DirFS(listings)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(saved, "config.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, regexp.MustCompile(`(?m)^SLURM_CONF .*\n`).ReplaceAllString(string(text), ""))
	d, err := slurmsite.Describe(t.Context(), slurmsite.Options{Saved: saved})
	if err != nil || d.Read || !slices.Contains(d.Notes,
		"scontrol show config names no slurm.conf: which lines have to move is not known") {
		t.Errorf("%v, %+v", err, d)
	}
}

// TestHistory: with the jobs of sacct, named or among the saved output, notes have the share of GPU-hours concerned.
func TestHistory(t *testing.T) {
	saved := t.TempDir()
	if err := os.CopyFS(saved, os.DirFS(listings)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(saved, "partitions.txt"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(saved, "partitions.txt"), strings.ReplaceAll(string(text), "LLN=NO", "LLN=YES"))
	name := regexp.MustCompile(`PartitionName=(\S+)`).FindStringSubmatch(string(text))[1]
	jobs := "JobIDRaw|User|Partition|State|Submit|Start|End|ElapsedRaw|AllocTRES\n" +
		"1|x|" + name + "|COMPLETED|100|200|3800|3600|gres/gpu=1\n2|x|none|COMPLETED|100|200|3800|3600|gres/gpu=3\n"
	trace := filepath.Join(t.TempDir(), "jobs.psv")
	write(t, trace, jobs)
	shares := func(path, want string) {
		t.Helper()
		d, err := slurmsite.Describe(t.Context(), slurmsite.Options{Saved: saved, Trace: path})
		if err != nil {
			t.Fatal(err)
		}
		if notes := strings.Join(d.Notes, "\n") + "\n"; !strings.Contains(notes,
			"partition "+name+": LLN=YES is not simulated"+want+"\n") {
			t.Error(notes)
		}
	}
	shares("", "")
	shares(trace, " (25 % of GPU-hours)")
	write(t, filepath.Join(saved, "sacct.psv"), jobs)
	shares("", " (25 % of GPU-hours)")
}

// TestFaults: faults of options name the option.
func TestFaults(t *testing.T) {
	for option, o := range map[string]slurmsite.Options{
		"Saved":   {Saved: t.TempDir()},
		"Conf":    {Saved: listings, Conf: filepath.Join(t.TempDir(), "none")},
		"TuneQOS": {Saved: listings, TuneQOS: []string{"bulk"}},
		"Trace":   {Saved: listings, Trace: filepath.Join(t.TempDir(), "none")},
	} {
		var of *slurmsite.OptionError
		if _, err := slurmsite.Describe(t.Context(), o); !errors.As(err, &of) || of.Option != option {
			t.Errorf("%s: %v", option, err)
		}
	}
	d, err := slurmsite.Describe(t.Context(), slurmsite.Options{Saved: listings})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	var of *slurmsite.OptionError
	if err := d.Write(file, encode); !errors.As(err, &of) || of.Option != "Out" {
		t.Error(err)
	}
}

// TestNarrow: presets differ in the order of jobs, and have the intervals and ranges of the site.
func TestNarrow(t *testing.T) {
	all, err := schedulers.Find("slurm")
	if err != nil {
		t.Fatal(err)
	}
	params := all.Space.Params()
	for i := range params {
		if params[i].ID == "SchedulerParameters.bf_interval" {
			params[i].Min, params[i].Default = 45, space.Num(50)
		}
	}
	registered, err := space.New(params, slurm.Rules())
	if err != nil {
		t.Fatal(err)
	}
	s, err := slurmsite.Narrow(registered)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range s.Presets {
		names = append(names, p.Name)
		if got := p.Config.Get("SchedulerParameters.bf_interval"); got.Float() != 50 {
			t.Errorf("%s: bf_interval is %v", p.Name, got)
		}
	}
	if want := []string{"few-gpus", "small", "site", "default-order"}; !slices.Equal(names, want) {
		t.Errorf("presets %v, want %v", names, want)
	}
}
