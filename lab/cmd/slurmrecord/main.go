// Command slurmrecord records a workload on a Slurm of 16 emulated nodes: the listings that slurm init reads, and a row
// for each start of a job, in seconds since the beginning; reservations begin and end as if that were the year 2000.
// Feature files hold lines of slurm.conf, and, after a line "%", commands that are run before the first submission.
// Jobs get the arguments that --by-qos has for their QOS: {gpus} is their GPUs on a node, {gpus*24<128} a multiple of
// these, at most 128.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/adapter/slurm/slurmtest"
	"github.com/autosched/autosched/schedulers/slurm/conf"
)

// users exist on Debian; recordings call them asu01 and so on.
var users = []string{"games", "man", "lp", "mail", "news", "uucp", "proxy", "www-data", "backup", "list", "irc",
	"systemd-network", "daemon", "bin", "sys", "_apt"}

func main() {
	jobs := flag.String("workload", "",
		"workload: job, submit_s, run_s, nodes, gpus_per_node, limit_min, user, account, qos")
	feature := flag.String("feature", "", "feature file")
	out := flag.String("out", "", "folder for the recording")
	byQOS := flag.String("by-qos", "",
		"further arguments of sbatch by QOS, as 'low=-p train -c {gpus*4<64};high=-p urgent'")
	hardware := flag.String("hardware", "", "nodes that differ, as '8 CPUs=64 RealMemory=500000 Gres=gpu:a100:8;8 ...'")
	topology := flag.String("topology", "", "file with topology.conf")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := record(ctx, *jobs, *feature, *out, *byQOS, *hardware, *topology); err != nil {
		fmt.Fprintln(os.Stderr, "slurmrecord:", err)
		os.Exit(1)
	}
}

func record(ctx context.Context, file, feature, out, byQOS, hardware, topology string) (err error) {
	o, commands, err := options(feature, hardware, topology)
	if err != nil {
		return err
	}
	rows, err := read(file)
	if err != nil {
		return err
	}
	c, err := slurmtest.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	began := time.Now().Truncate(time.Second).Add(3 * time.Second)
	for line := range strings.Lines(commands) {
		args := strings.Fields(line)
		for i, a := range args {
			args[i] = at(a, began)
		}
		if len(args) == 0 {
			continue
		}
		if _, err := c.Run(ctx, args[0], args[1:]...); err != nil {
			return err
		}
	}
	listings := slices.Concat(conf.Commands, []conf.Command{conf.ReservationCommand})
	if topology != "" {
		listings = append(listings, conf.TopologyCommand)
	}
	if err := list(ctx, c, listings, out, began); err != nil {
		return err
	}
	ids, err := submit(ctx, c, rows, byQOS, began)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := ended(ctx, c); err != nil {
		return err
	}
	return write(ctx, c, filepath.Join(out, "runs.csv"), began, ids)
}

// options are those of the cluster, and the commands of the feature file.
func options(feature, hardware, topology string) (o slurmtest.Options, commands string, err error) {
	text, err := os.ReadFile(feature)
	if err != nil {
		return o, "", err
	}
	o.QOS = map[string]int{"high": 100, "normal": 50, "low": 0}
	o.Conf, commands, _ = strings.Cut(string(text), "%\n")
	for i, shares := range []int{10, 20, 10, 5, 5, 5, 5, 5} {
		o.Accounts = append(o.Accounts, slurmtest.Account{Name: fmt.Sprintf("vc%d", i+1), Share: shares,
			Users: users[2*i : 2*i+2]})
	}
	for item := range strings.SplitSeq(hardware, ";") {
		if number, is, ok := strings.Cut(item, " "); ok {
			n, err := strconv.Atoi(number)
			if err != nil {
				return o, "", err
			}
			o.Hardware = append(o.Hardware, slurmtest.Hardware{Nodes: n, Is: is})
		}
	}
	if topology != "" {
		if text, err = os.ReadFile(topology); err != nil {
			return o, "", err
		}
		o.Topology = string(text)
	}
	return o, commands, nil
}

// list writes listings of the cluster.
func list(ctx context.Context, c *slurmtest.Cluster, listings []conf.Command, out string, began time.Time) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, l := range listings {
		text, err := c.Run(ctx, "env", append([]string{"SLURM_TIME_FORMAT=%s"}, l.Args...)...)
		if err != nil {
			return err
		}
		if l.File == conf.ReservationCommand.File {
			text = sinceBeginning(text, began)
		}
		for i, user := range users {
			text = bytes.ReplaceAll(text, []byte("|"+user+"|"), fmt.Appendf(nil, "|asu%02d|", i+1))
		}
		if err := os.WriteFile(filepath.Join(out, l.File), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// submit submits the jobs at their times, and returns them by their ids.
func submit(ctx context.Context, c *slurmtest.Cluster, rows []map[string]string, byQOS string, began time.Time,
) (map[string]asked, error) {
	more := map[string][]string{}
	for item := range strings.SplitSeq(byQOS, ";") {
		qos, args, _ := strings.Cut(item, "=")
		more[qos] = strings.Fields(args)
	}
	ids := map[string]asked{}
	for _, r := range rows {
		var bad error
		number := func(name, text string) float64 {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				bad = cmp.Or(bad, fmt.Errorf("job %s: %s: %w", r["job"], name, err))
			}
			return x
		}
		at := time.Duration(number("submit_s", r["submit_s"]) * float64(time.Second))
		user := int(number("user", strings.TrimPrefix(r["user"], "asu")))
		j := slurmtest.Job{Seconds: int(number("run_s", r["run_s"]) + .5), Nodes: int(number("nodes", r["nodes"])),
			GPUs: int(number("gpus_per_node", r["gpus_per_node"])), Minutes: int(number("limit_min", r["limit_min"])),
			Account: r["account"], QOS: r["qos"]}
		if bad != nil {
			return nil, bad
		}
		if user < 1 || user > len(users) {
			return nil, fmt.Errorf("job %s: user: %q is not from asu01 to asu%d", r["job"], r["user"], len(users))
		}
		j.User = users[user-1]
		for _, a := range more[r["qos"]] {
			j.More = append(j.More, multiple(a, j.GPUs))
		}
		time.Sleep(time.Until(began.Add(at)))
		id, err := c.Submit(ctx, j)
		if err != nil {
			return nil, err
		}
		ids[id] = asked{r["job"], j.Seconds}
	}
	return ids, nil
}

// ended waits until no job is left, and accounting knows.
func ended(ctx context.Context, c *slurmtest.Cluster) error {
	for deadline := time.Now().Add(25 * time.Minute); ; time.Sleep(2 * time.Second) {
		queue, err := c.Run(ctx, "squeue", "-h", "-o", "%A")
		switch {
		case err == nil && len(bytes.TrimSpace(queue)) == 0:
			time.Sleep(10 * time.Second)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return errors.New("the jobs do not end")
		}
	}
}

// at replaces {N} by the instant N seconds after the beginning.
func at(text string, began time.Time) string {
	before, rest, ok := strings.Cut(text, "{")
	number, after, closed := strings.Cut(rest, "}")
	seconds, err := strconv.Atoi(number)
	if !ok || !closed || err != nil {
		return text
	}
	return before + began.Add(time.Duration(seconds)*time.Second).Local().Format("2006-01-02T15:04:05") + after
}

// product is a multiple of a job's GPUs in an argument.
var product = regexp.MustCompile(`\{gpus(?:\*(\d+)<(\d+))?\}`)

// multiple has the multiples of GPUs of an argument as numbers.
func multiple(argument string, gpus int) string {
	return product.ReplaceAllStringFunc(argument, func(item string) string {
		by, most := 1, gpus
		if m := product.FindStringSubmatch(item); m[1] != "" {
			by, _ = strconv.Atoi(m[1])
			most, _ = strconv.Atoi(m[2])
		}
		return strconv.Itoa(min(by*gpus, most))
	})
}

// asked is a job of the workload, and how long it runs if nothing stops it.
type asked struct {
	job     string
	seconds int
}

// reserved is a time of a reservation, in seconds since 1970.
var reserved = regexp.MustCompile(`\b(StartTime|EndTime)=(\d+)`)

// sinceBeginning has the times of reservations as if the first submission were at the beginning of 2000.
func sinceBeginning(listing []byte, began time.Time) []byte {
	return reserved.ReplaceAllFunc(listing, func(item []byte) []byte {
		name, value, _ := bytes.Cut(item, []byte("="))
		seconds, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil {
			return item
		}
		t := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds-began.Unix()) * time.Second)
		return fmt.Appendf(nil, "%s=%s", name, t.Format("2006-01-02T15:04:05"))
	})
}

func read(file string) (out []map[string]string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	for _, row := range rows[1:] {
		r := map[string]string{}
		for i, v := range row {
			r[rows[0][i]] = v
		}
		out = append(out, r)
	}
	return out, nil
}

// write writes the rows of accounting, in seconds since the beginning, with the run times that the jobs asked for.
func write(ctx context.Context, c *slurmtest.Cluster, file string, began time.Time, ids map[string]asked) error {
	const fields = "JobIDRaw,Submit,Start,End,State,User,Account,QOS,Partition,NNodes,AllocTRES,TimelimitRaw,Flags," +
		"NodeList,ReqTRES"
	text, err := c.Run(ctx, "env", "SLURM_TIME_FORMAT=%s", "sacct", "-X", "-a", "-n", "-P", "-D", "-S", "now-3hours",
		"--format="+fields)
	if err != nil {
		return err
	}
	var rows [][]string
	starts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), "|")
		of, ok := ids[f[0]]
		if !ok {
			continue
		}
		starts[of.job]++
		row := []string{of.job, strconv.Itoa(starts[of.job])}
		for _, t := range f[1:4] {
			seconds, err := strconv.ParseInt(t, 10, 64)
			if err != nil {
				row = append(row, "") // it never started
				continue
			}
			row = append(row, strconv.FormatInt(seconds-began.Unix(), 10))
		}
		user := slices.Index(users, f[5])
		gpus := 0
		for item := range strings.SplitSeq(f[10], ",") {
			if n, is := strings.CutPrefix(item, "gres/gpu="); is {
				gpus, _ = strconv.Atoi(n)
			}
		}
		nodes, _ := strconv.Atoi(f[9])
		rows = append(rows, append(row, strings.Fields(f[4])[0], fmt.Sprintf("asu%02d", user+1), f[6], f[7], f[8], f[9],
			strconv.Itoa(gpus/max(1, nodes)), f[11], strconv.Itoa(of.seconds),
			strings.ToLower(strings.TrimPrefix(f[12], "Sched")), f[13], f[14], f[10]))
	}
	number := func(row []string) int { n, _ := strconv.Atoi(row[0]); return n }
	slices.SortStableFunc(rows, func(a, b []string) int { return number(a) - number(b) })
	w, err := os.Create(file)
	if err != nil {
		return err
	}
	defer w.Close()
	table := csv.NewWriter(w)
	_ = table.Write(strings.Split("job,start_no,submit,start,end,state,user,account,qos,partition,nodes,gpus_per_node,"+
		"limit_min,run_s,by,node_list,req_tres,alloc_tres", ","))
	return errors.Join(table.WriteAll(rows), w.Close())
}
