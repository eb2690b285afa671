package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
)

func newWorkloadCmd() *cobra.Command {
	var f cli.ClientFlags
	cmd := &cobra.Command{
		Use:   "workload",
		Short: "Keep workloads of a scheduler in the service, to measure configurations on them",
		Long: `A workload is a list of jobs with their submissions and run times that the service keeps: a
future that a round samples, jobs of the scheduler that ended, or a trace of yours. It does
not change. 'autosched scheduler what-if --workload' simulates values on it, 'autosched study run
--workload' hands it to an evaluator, and 'scheduler workload download' writes it as a trace.
Workloads are named SCHEDULER/WORKLOAD.`,
		Example: `  autosched scheduler workload generate prod/tonight
  autosched scheduler workload upload prod/july july.psv
  autosched scheduler workload list prod
  autosched scheduler workload download prod/tonight --out tonight.csv.gz`,
	}
	f.Add(cmd)
	cmd.AddCommand(newWorkloadGenerateCmd(&f), newWorkloadUploadCmd(&f), newWorkloadListCmd(&f), newWorkloadGetCmd(&f),
		newWorkloadDownloadCmd(&f), newWorkloadDeleteCmd(&f))
	return cmd
}

// workloadArg reads the only argument.
func workloadArg(args []string) (string, error) {
	if len(args) != 1 {
		return "", cli.Usage(errors.New("want one workload, as SCHEDULER/WORKLOAD"))
	}
	return cli.WorkloadArg(args[0])
}

// newWorkloadFlags are the flags of commands that make a workload.
type newWorkloadFlags struct {
	display string
	labels  map[string]string
}

func (n *newWorkloadFlags) add(cmd *cobra.Command, f *cli.ClientFlags) {
	fl := cmd.Flags()
	fl.StringVar(&n.display, "display-name", "", "name for people")
	fl.StringToStringVar(&n.labels, "label", nil, "")
	f.AddReason(cmd)
	f.AddValidateOnly(cmd)
}

func newWorkloadGenerateCmd(f *cli.ClientFlags) *cobra.Command {
	var n newWorkloadFlags
	var past cli.WindowFlags
	var seed uint64
	var round int64
	var ended bool
	req := &pb.GenerateWorkloadRequest{}
	cmd := &cobra.Command{
		Use:   "generate SCHEDULER/WORKLOAD",
		Short: "Keep a future that a round samples, or jobs that ended",
		Long: `Samples the futures of the latest event time as a round does that is triggered now, and keeps
one of them: the active jobs with a predicted run time each, and forecast arrivals. With
--round it is a future of a stored round ('autosched scheduler rounds list'), from the events that it
knew; the same future of the same round has the same bytes. With --ended the workload is
the jobs that were submitted between --from and --to and ended.`,
		Example: `  autosched scheduler workload generate prod/tonight
  autosched scheduler workload generate prod/other --future 1 --seed 7
  autosched scheduler workload generate prod/before-the-change --round 41
  autosched scheduler workload generate prod/monday --ended --from 2026-01-05T00:00:00Z --to 2026-01-06T00:00:00Z`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			given := cmd.Flags().Changed
			if !ended && (given("from") || given("to")) {
				return cli.Usage(errors.New("--from and --to: are of --ended"))
			}
			if given("seed") {
				req.Seed = &seed
			}
			if ended {
				w := &pb.JobWindow{}
				if w.StartTime, w.EndTime, err = past.Read(); err != nil {
					return err
				}
				req.Source = &pb.GenerateWorkloadRequest_EndedJobs{EndedJobs: w}
			}
			req.DisplayName, req.Labels, req.ValidateOnly = n.display, n.labels, f.ValidateOnly
			return cli.Ask(f, cmd, args, workloadArg,
				func(ctx context.Context, c *cli.Client, name string) (*pb.Workload, error) {
					req.Parent, req.WorkloadId, _ = strings.Cut(name, "/workloads/")
					if given("round") {
						of := fmt.Sprintf("%s/rounds/%d", req.GetParent(), round)
						req.Source = &pb.GenerateWorkloadRequest_Round{Round: of}
					}
					return c.Workloads.GenerateWorkload(ctx, req)
				}, func(w io.Writer, got *pb.Workload) error { return printMade(f, w, got) })
		},
	}
	fl := cmd.Flags()
	fl.Int64Var(&round, "round", 0, "")
	fl.Int32Var(&req.Future, "future", 0, "which of the futures, from 0")
	fl.Uint64Var(&seed, "seed", 0, "")
	fl.BoolVar(&ended, "ended", false, "keep jobs that ended instead of a future")
	past.Add(cmd, "as far back as jobs are kept", latestEvent)
	n.add(cmd, f)
	for _, other := range []string{"round", "future", "seed"} {
		cmd.MarkFlagsMutuallyExclusive("ended", other)
	}
	return cmd
}

// printMade prints a workload that was made.
func printMade(f *cli.ClientFlags, w io.Writer, got *pb.Workload) error {
	if f.ValidateOnly {
		fmt.Fprintln(w, "nothing was stored; it would be:")
	}
	return printWorkload(w, got)
}

func newWorkloadUploadCmd(f *cli.ClientFlags) *cobra.Command {
	var n newWorkloadFlags
	first := &pb.UploadWorkloadRequest{}
	cmd := &cobra.Command{
		Use:   "upload SCHEDULER/WORKLOAD FILE",
		Short: "Keep the jobs of a trace",
		Long: `Sends a trace of one file to the service, which keeps its jobs: in any format that 'autosched
trace --help' lists, plain, gzip or zstd. "-" is standard input. Rows that cannot be used are
counted and named; with --strict the first one ends the upload.`,
		Example: `  autosched scheduler workload upload prod/july july.psv
  autosched trace window big.csv.gz --from 2026-01-05 --to 2026-01-12 --out - | autosched scheduler workload upload prod/week -`,
		Args: cli.Exactly(2, "want a workload, as SCHEDULER/WORKLOAD, and a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := cli.WorkloadArg(args[0])
			if err != nil {
				return err
			}
			in := io.NopCloser(cmd.InOrStdin())
			if args[1] != "-" {
				if in, err = atomicfile.Open(args[1]); err != nil {
					return err
				}
			}
			defer in.Close()
			first.Parent, first.WorkloadId, _ = strings.Cut(name, "/workloads/")
			first.DisplayName, first.Labels, first.ValidateOnly = n.display, n.labels, f.ValidateOnly
			return f.Call(cmd.Context(), true, func(ctx context.Context, c *cli.Client) error {
				got, err := cli.SendWorkload(ctx, c, first, in)
				return f.Answer(cmd, got, err, func(w io.Writer) error { return printUpload(f, w, args[1], got) })
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&first.Format, "format", "", "")
	fl.BoolVar(&first.Strict, "strict", false, "fail at the first faulty row (default: reject and count it, and continue)")
	n.add(cmd, f)
	return cmd
}

func printUpload(f *cli.ClientFlags, out io.Writer, file string, got *pb.UploadWorkloadResponse) error {
	fmt.Fprintf(out, "read as %s\n", got.GetFormat())
	for _, x := range got.GetRejectedRows() {
		fmt.Fprintf(out, "rejected: %s:%d: %s: %s\n", file, x.GetLine(), x.GetField(), x.GetDescription())
	}
	if more := int(got.GetRejectedRowCount()) - len(got.GetRejectedRows()); more > 0 {
		fmt.Fprintf(out, "rejected: %s more\n", units.Plural(more, "row"))
	}
	for _, reason := range slices.Sorted(maps.Keys(got.GetLeftOutJobCounts())) {
		fmt.Fprintf(out, "left out: %s: %s\n", units.Plural(int(got.GetLeftOutJobCounts()[reason]), "job"), reason)
	}
	return printMade(f, out, got.GetWorkload())
}

func newWorkloadListCmd(f *cli.ClientFlags) *cobra.Command {
	var l cli.ListFlags
	cmd := &cobra.Command{
		Use:   "list SCHEDULER",
		Short: "List the workloads of a scheduler",
		Long: `Prints the workloads of a scheduler in order of id. LOAD is the GPU-time that the jobs ask for over
what the registered cluster has between the first and the last submission.`,
		Example: `  autosched scheduler workload list prod
  autosched scheduler workload list prod --filter 'origin = UPLOADED AND labels.team:*' --order-by 'create_time desc'`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: cli.Asks(f, cli.SchedulerArg,
			func(ctx context.Context, c *cli.Client, name string) (*pb.ListWorkloadsResponse, error) {
				return cli.Pages(func(page string) (*pb.ListWorkloadsResponse, error) {
					return c.Workloads.ListWorkloads(ctx, &pb.ListWorkloadsRequest{Parent: name, PageSize: 1000,
						PageToken: page, Filter: l.Filter, OrderBy: l.OrderBy})
				})
			}, printWorkloads),
	}
	l.Add(cmd, true)
	return cmd
}

func printWorkloads(out io.Writer, all *pb.ListWorkloadsResponse) error {
	if len(all.GetWorkloads()) == 0 {
		_, err := fmt.Fprintln(out, "no workloads")
		return err
	}
	w := table.New(out, "WORKLOAD\tORIGIN\tJOBS\tGPU-HOURS\tLOAD\tFIRST SUBMISSION\tLAST\tCREATED")
	for _, x := range all.GetWorkloads() {
		s := x.GetStatistics()
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", cli.ShortWorkload(x.GetName()),
			cli.EnumWord(x.GetOrigin()), s.GetJobCount(), shortNumber(s.GetGpuHours()),
			shortNumber(s.GetLoad()),
			cli.Instant(s.GetFirstSubmitTime()),
			cli.Instant(s.GetLastSubmitTime()),
			cli.Instant(x.GetCreateTime()))
	}
	return w.Flush()
}

func newWorkloadGetCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "get SCHEDULER/WORKLOAD",
		Short: "Show a workload: where its jobs come from, and their statistics",
		Long: `Shows where the jobs of a workload come from, and their statistics. 'autosched scheduler workload download'
writes the jobs themselves.`,
		Example: "  autosched scheduler workload get prod/tonight",
		RunE: cli.Asks(f, workloadArg,
			func(ctx context.Context, c *cli.Client, name string) (*pb.Workload, error) {
				return c.Workloads.GetWorkload(ctx, &pb.GetWorkloadRequest{Name: name})
			}, printWorkload),
	}
}

func printWorkload(out io.Writer, x *pb.Workload) error {
	w := table.New(out, "")
	fmt.Fprintf(w, "workload\t%s\n", cli.ShortWorkload(x.GetName()))
	if x.GetDisplayName() != "" {
		fmt.Fprintf(w, "display name\t%s\n", x.GetDisplayName())
	}
	for _, key := range slices.Sorted(maps.Keys(x.GetLabels())) {
		fmt.Fprintf(w, "label\t%s=%s\n", key, x.GetLabels()[key])
	}
	fmt.Fprintf(w, "origin\t%s\n", originText(x))
	s := x.GetStatistics()
	fmt.Fprintf(w, "jobs\t%d, %s GPUs, %s GPU-hours", s.GetJobCount(), shortNumber(s.GetGpus()),
		shortNumber(s.GetGpuHours()))
	if n := s.GetWiderJobCount(); n > 0 {
		fmt.Fprintf(w, "; %d do not fit the cluster", n)
	}
	fmt.Fprintf(w, "\nsubmitted\t%s to %s\n", cli.Instant(s.GetFirstSubmitTime()),
		cli.Instant(s.GetLastSubmitTime()))
	fmt.Fprintf(w, "load\t%s of the cluster\n", shortNumber(s.GetLoad()))
	row := func(name string, q *pb.WorkloadStatistics_Quantiles, text func(float64) string) {
		fmt.Fprintf(w, "%s\tp10 %s, median %s, p90 %s, p99 %s, at most %s\n", name, text(q.GetP10()),
			text(q.GetP50()), text(q.GetP90()), text(q.GetP99()), text(q.GetMax()))
	}
	row("duration", s.GetDurationSeconds(), units.Duration)
	row("GPUs", s.GetWidthGpus(), shortNumber)
	fmt.Fprintf(w, "created\t%s\n", cli.Instant(x.GetCreateTime()))
	fmt.Fprintf(w, "etag\t%s\n", x.GetEtag())
	fmt.Fprintf(w, "sha256\t%s of %d bytes\n", x.GetSha256(), x.GetSizeBytes())
	return w.Flush()
}

// originText says where the jobs come from.
func originText(x *pb.Workload) string {
	text := cli.EnumWord(x.GetOrigin())
	if f := x.GetFuture(); f != nil {
		text += fmt.Sprintf(", future %d from %s on, arrivals for %s, seed %d, %s", f.GetFuture(),
			cli.Instant(f.GetSchedulerTime()), units.Duration(f.GetHorizon().AsDuration().Seconds()),
			f.GetSeed(), units.Plural(int(f.GetActiveJobCount()), "active job"))
		if f.GetRound() != "" {
			text += ", of round " + cli.ShortName(f.GetRound())
		}
	}
	if n := x.GetRejectedRowCount(); n > 0 {
		text += ", " + units.Plural(int(n), "row") + " rejected"
	}
	if n := x.GetLeftOutJobCount(); n > 0 {
		text += ", " + units.Plural(int(n), "job") + " left out"
	}
	return text
}

func newWorkloadDownloadCmd(f *cli.ClientFlags) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "download SCHEDULER/WORKLOAD",
		Short: "Write the jobs of a workload as a trace",
		Long: `Writes the jobs as AutoSched's own CSV, which 'autosched simulate --trace' and the other commands
read: to standard output, or to --out, compressed if its name ends in .gz or .zst.`,
		Example: `  autosched scheduler workload download prod/tonight --out tonight.csv
  autosched scheduler workload download prod/tonight | autosched trace stats -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.JSON && out == "-" {
				return cli.Usage(errors.New("--json needs --out FILE: standard output holds the jobs"))
			}
			name, err := workloadArg(args)
			if err != nil {
				return err
			}
			return f.Call(cmd.Context(), true, func(ctx context.Context, c *cli.Client) error {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				got, err := c.Workloads.GetWorkload(ctx, &pb.GetWorkloadRequest{Name: name})
				if err != nil {
					return err
				}
				stream, err := c.Workloads.DownloadWorkload(ctx, &pb.DownloadWorkloadRequest{Name: name})
				if err != nil {
					return err
				}
				write := func(w io.Writer) error {
					for {
						part, err := stream.Recv()
						if err == io.EOF {
							return nil
						}
						if err == nil {
							_, err = w.Write(part.GetData())
						}
						if err != nil {
							return err
						}
					}
				}
				if err := cli.WriteOutput(cmd, out, write); err != nil || out == "-" {
					return err
				}
				return f.Say(cmd, got, "%s: %s", out, units.Plural(int(got.GetStatistics().GetJobCount()), "job"))
			})
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "-", "file to write; \"-\" is standard output")
	return cmd
}

func newWorkloadDeleteCmd(f *cli.ClientFlags) *cobra.Command {
	req := &pb.DeleteWorkloadRequest{}
	cmd := &cobra.Command{
		Use:   "delete SCHEDULER/WORKLOAD",
		Short: "Remove a workload",
		Long: `Removes a workload. There is no way back: 'autosched scheduler workload download' writes its jobs into a file
before. Studies that are measured on it measure nothing more.`,
		Example: "  autosched scheduler workload delete prod/tonight --reason 'the change is made'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.Named(cmd, args, workloadArg, func(ctx context.Context, c *cli.Client, name string) error {
				req.Name, req.ValidateOnly, req.Etag = name, f.ValidateOnly, f.Etag
				got, err := c.Workloads.DeleteWorkload(ctx, req)
				id := cli.ShortWorkload(name)
				return f.Outcome(cmd, got, err, id+" would be deleted", id+" is deleted")
			})
		},
	}
	f.AddChange(cmd, true)
	return cmd
}
