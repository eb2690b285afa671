package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/telemetry"
)

// importBatch is how many records one call sends, of at most importHours hours.
const (
	importBatch = 5000
	importHours = 40
)

// telemetryImportOptions are the flags of telemetry import.
type telemetryImportOptions struct {
	client cli.ClientFlags
	read   cli.TelemetryFlags
	files  []string
	stdin  io.Reader
	log    io.Writer // progress
}

func newTelemetryImportCmd() *cobra.Command {
	var o telemetryImportOptions
	cmd := &cobra.Command{
		Use:   "import SCHEDULER FILE...",
		Short: "Send samples of GPUs and times of training steps from files to the service",
		Long: `Import reads samples of GPUs, or times of training steps, in any known format, "-" for
standard input, and sends them to the service as those of a scheduler's cluster. A record
counts once, however often it is sent, so that the same command goes on after an interruption. Rejected
rows and records are counted, and the first of them named. Steps need the times of their ends.`,
		Example: `  autosched telemetry import prod gpus.csv.zst
  autosched telemetry import prod steps.csv
  curl -s node7:9400/metrics | autosched telemetry import prod - --scrape-time 2026-01-05T12:00:00Z`,
		ValidArgsFunction: cli.CompleteSchedulers(&o.client),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return cli.Usage(errors.New("name the scheduler and the files, or - for standard input"))
			}
			o.files = args[1:]
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.stdin, o.log = cmd.InOrStdin(), cmd.ErrOrStderr()
			opts, err := o.read.Options()
			if err != nil {
				return err
			}
			name, err := cli.SchedulerArg(args[:1])
			if err != nil {
				return err
			}
			return o.client.Call(cmd.Context(), true, func(ctx context.Context, c *cli.Client) error {
				r, err := o.run(ctx, c, name, opts)
				if err != nil {
					return err
				}
				print := func(w io.Writer) error {
					text := fmt.Sprintf("%d samples stored, %d rejected", r.Stored, r.Rejected)
					if r.Iterations > 0 {
						text += fmt.Sprintf(", %d iterations stored", r.Iterations)
					}
					_, err := fmt.Fprintln(w, text)
					return err
				}
				if err := cli.Show(cmd.OutOrStdout(), o.client.JSON, "telemetry-import/v1", r, print); err != nil {
					return err
				}
				if r.Rejected > 0 {
					return fmt.Errorf("%d records were rejected, first %s", r.Rejected, r.First)
				}
				return nil
			})
		},
	}
	o.client.Add(cmd)
	o.read.Add(cmd)
	o.read.AddClock(cmd)
	return cmd
}

// telemetryImported is the result of telemetry import.
type telemetryImported struct {
	Stored     int64 `json:"stored"`
	Iterations int64 `json:"iterations,omitempty"`
	Rejected   int64 `json:"rejected"` // of both
	// First is the error of the first rejected sample.
	First string `json:"first,omitempty"`
}

func (o *telemetryImportOptions) run(ctx context.Context, c *cli.Client, parent string,
	opts telemetry.Options) (*telemetryImported, error) {
	out := &telemetryImported{}
	progress := cli.NewProgressLine(o.log)
	defer progress.Clear()
	for _, path := range o.files {
		in, name := o.stdin, "stdin"
		if path != "-" {
			f, err := os.Open(path)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			in, name = f, filepath.Base(path)
		}
		req := &pb.IngestTelemetryRequest{Parent: parent}
		hours := map[time.Duration]bool{}
		send := func() error {
			if len(req.GetSamples())+len(req.GetIterations()) == 0 {
				return nil
			}
			ctx, cancel := context.WithTimeout(ctx, o.client.Timeout)
			defer cancel()
			got, err := c.Telemetry.IngestTelemetry(ctx, req)
			if err != nil {
				return err
			}
			out.Stored += got.GetStoredCount()
			out.Iterations += got.GetStoredIterationCount()
			out.Rejected += got.GetRejectedIterationCount()
			if bad := got.GetRejectedIterations(); out.First == "" && len(bad) > 0 {
				r := bad[0]
				p := req.GetIterations()[r.GetIndex()]
				out.First = fmt.Sprintf("%s: step %d of worker %d of job %q: %s: %s", name, p.GetStep(), p.GetWorker(),
					p.GetJobId(), r.GetField(), r.GetReason())
			}
			if out.Rejected += got.GetRejectedCount(); out.First == "" && len(got.GetRejected()) > 0 {
				r := got.GetRejected()[0]
				p := req.GetSamples()[r.GetIndex()]
				out.First = fmt.Sprintf("%s: GPU %d of node %q at %s: %s: %s", name, p.GetGpuIndex(), p.GetNodeId(),
					cli.Instant(p.GetSampleTime()), r.GetField(), r.GetReason())
			}
			progress.Show("%s: %d records", name, out.Stored+out.Iterations)
			req.Samples, req.Iterations = req.Samples[:0], req.Iterations[:0]
			clear(hours)
			return nil
		}
		added := func(at time.Duration) error {
			hours[at/time.Hour] = true
			if len(req.GetSamples())+len(req.GetIterations()) >= importBatch || len(hours) >= importHours {
				return send()
			}
			return nil
		}
		stats, err := telemetry.ReadAll(ctx, in, name, opts, telemetry.Visit{
			GPU: func(s *telemetry.GPUSample) error {
				req.Samples = append(req.Samples, convert.SampleToProto(s))
				return added(s.Time)
			},
			Iteration: func(i *telemetry.Iteration) error {
				req.Iterations = append(req.Iterations, convert.IterationToProto(i))
				return added(i.Time)
			},
		})
		if err == nil {
			err = cmp.Or(send(), stats.Nothing())
		}
		if err != nil {
			return nil, err
		}
		progress.Clear()
		o.read.Note(o.log, stats)
		if stats.Rejected > 0 && out.First == "" {
			out.First = fmt.Sprintf("%s: %s", name, stats.First[0])
		}
		out.Rejected += int64(stats.Rejected)
	}
	return out, nil
}

// telemetrySink sends the samples of a node to the service.
type telemetrySink struct {
	samples pb.TelemetryServiceClient
	parent  string
	say     func(text string)
}

// Send implements collect.Sink. Rejected samples are not sent again.
func (t *telemetrySink) Send(ctx context.Context, all []telemetry.GPUSample) error {
	req := &pb.IngestTelemetryRequest{Parent: t.parent}
	for i := range all {
		req.Samples = append(req.Samples, convert.SampleToProto(&all[i]))
	}
	got, err := t.samples.IngestTelemetry(ctx, req)
	if err != nil {
		return err
	}
	if n := got.GetRejectedCount(); n > 0 {
		r := got.GetRejected()[0]
		t.say(fmt.Sprintf("the service rejected %d samples: %s: %s", n, r.GetField(), r.GetReason()))
	}
	return nil
}

// telemetryQuery are the flags that choose samples of the service.
type telemetryQuery struct {
	client         cli.ClientFlags
	window         cli.WindowFlags
	node, job, per string
}

func (q *telemetryQuery) add(cmd *cobra.Command) {
	q.client.Add(cmd)
	f := cmd.Flags()
	q.window.Add(cmd, "as far back as samples are kept", "the latest sample")
	f.StringVar(&q.node, "node", "", "")
	f.StringVar(&q.job, "job", "", "")
	f.StringVar(&q.per, "resolution", "raw", "raw, 5m or 1h: as measured, or means of five minutes or of an hour")
}

var telemetryResolutions = map[string]pb.ListTelemetryRequest_Resolution{"raw": 0,
	"5m": pb.ListTelemetryRequest_FIVE_MINUTES, "1h": pb.ListTelemetryRequest_HOUR}

func (q *telemetryQuery) request(parent string) (*pb.ListTelemetryRequest, error) {
	req := &pb.ListTelemetryRequest{Parent: parent, NodeId: q.node, JobId: q.job}
	var err error
	if req.StartTime, req.EndTime, err = q.window.Read(); err != nil {
		return nil, err
	}
	resolution, known := telemetryResolutions[q.per]
	if !known {
		return nil, cli.Usage(fmt.Errorf("--resolution: %q is not raw, 5m or 1h", q.per))
	}
	req.Resolution = resolution
	return req, nil
}

// each calls f with the samples, page by page.
func (q *telemetryQuery) each(ctx context.Context, c *cli.Client, req *pb.ListTelemetryRequest,
	f func(*pb.GpuSample) error) error {
	for {
		page, cancel := context.WithTimeout(ctx, q.client.Timeout)
		got, err := c.Telemetry.ListTelemetry(page, req)
		cancel()
		if err != nil {
			return err
		}
		for _, s := range got.GetSamples() {
			if err := f(s); err != nil {
				return err
			}
		}
		if req.PageToken = got.GetNextPageToken(); req.PageToken == "" {
			return nil
		}
	}
}

// telemetryExported is the result of telemetry export.
type telemetryExported struct {
	File    string `json:"file"`
	Samples int    `json:"samples"`
}

func newTelemetryExportCmd() *cobra.Command {
	var q telemetryQuery
	var path string
	cmd := &cobra.Command{
		Use:   "export SCHEDULER",
		Short: "Write what the service has of a scheduler's GPUs to a file",
		Long: `Export writes samples of the service as AutoSched's own CSV, which every command reads that
takes telemetry. Times, GPUs and quantities are as they were measured; what was not measured
is an empty field.`,
		Example: `  autosched telemetry export prod --from 2026-01-05T00:00:00Z --out gpus.csv.zst
  autosched telemetry export prod --resolution 1h | head`,
		ValidArgsFunction: cli.CompleteSchedulers(&q.client),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := cli.SchedulerArg(args)
			if err != nil {
				return err
			}
			req, err := q.request(name)
			if err != nil {
				return err
			}
			req.PageSize = importBatch
			if path == "-" && q.client.JSON {
				return cli.Usage(errors.New("--json: standard output has the samples: name a file with --out"))
			}
			r := telemetryExported{File: path}
			export := func(ctx context.Context, c *cli.Client, out io.Writer) error {
				w := telemetry.NewWriter(out)
				err := q.each(ctx, c, req, func(p *pb.GpuSample) error {
					s, err := convert.SampleFromProto(p)
					if err != nil {
						return err
					}
					r.Samples++
					return w.Write(&s)
				})
				return errors.Join(err, w.Flush())
			}
			return q.client.Call(cmd.Context(), true, func(ctx context.Context, c *cli.Client) error {
				if path == "-" {
					return export(ctx, c, cmd.OutOrStdout())
				}
				err := atomicfile.Write(path, func(out io.Writer) error { return export(ctx, c, out) })
				if err != nil {
					return err
				}
				return cli.Show(cmd.OutOrStdout(), q.client.JSON, "telemetry-export/v1", &r, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%d samples in %s\n", r.Samples, path)
					return err
				})
			})
		},
	}
	q.add(cmd)
	cmd.Flags().StringVarP(&path, "out", "o", "-",
		"file to write, compressed if it ends in .gz or .zst, - for standard output")
	return cmd
}
