package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/grpc"

	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/api/server"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/workload"
)

// Copy has the records of a service that another process changes.
type Copy interface {
	server.Store
	controller.RoundLog
	controller.EventLog
	Load() ([]controller.Saved, []controller.Request, []controller.Damage, error)
	LoadScheduler(id string) (one controller.Saved, found bool, err error)
	Audit(from int64, newestFirst bool, visit func(place int64, line []byte, err error) bool) error
	Cursor(scheduler string) (string, error)
	Epoch() controller.Epoch
	Reports(uid string, after reports.Key, visit func(*reports.Report) bool) (damage, err error)
}

// Reader answers calls that only read, from a copy. Its callers come through a front in the same process.
type Reader struct {
	copy       Copy
	controller *controller.Service
	reports    *reports.Keeper
	server     *server.Server
	conn       *grpc.ClientConn
	web        http.Handler
}

// ReaderOptions are those of a reader. All are required.
type ReaderOptions struct {
	Server server.Options // without the parts that NewReader makes
	Access *access.Source
	Log    *slog.Logger
}

// NewReader reads a copy, which must be whole.
func NewReader(c Copy, o ReaderOptions) (r *Reader, err error) {
	quiet := slog.New(slog.DiscardHandler) // the service logs its records
	r = &Reader{copy: c}
	if r.controller, err = controller.NewService(controller.Options{Store: unwritten{c}, Log: quiet,
		Decide: round.DecideOnline}); err != nil {
		return nil, err
	}
	r.reports = reports.New(reports.Options{Store: unwritten{c}, Schedulers: r.controller, Log: o.Log})
	so := o.Server
	so.Service, so.Store, so.Access, so.Log, so.Reports = r.controller, c, o.Access, o.Log, r.reports
	so.Forwarded, so.Copy = true, true
	r.server = server.New(so)
	r.web = r.server.Web()
	if r.conn, err = r.server.ConnectFront(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Reread reads schedulers again that changed, and the reports of the schedulers with uids.
func (r *Reader) Reread(schedulers, uids []string) error {
	for _, id := range schedulers {
		one, found, err := r.copy.LoadScheduler(id)
		if err == nil {
			err = whole(&one)
		}
		if err != nil {
			return fmt.Errorf("scheduler %q of the copy is not read: %w", id, err)
		}
		r.reports.Forget(id)
		if found {
			r.controller.Reread(id, &one)
		} else {
			r.controller.Reread(id, nil)
		}
	}
	if len(uids) == 0 {
		return nil
	}
	reported := map[string]bool{}
	for _, uid := range uids {
		reported[uid] = true
	}
	for _, id := range r.controller.Schedulers("", 1<<30) {
		if c, _, err := r.controller.Scheduler(id); err == nil && reported[c.UID] {
			r.reports.Forget(id)
		}
	}
	return nil
}

// Conn and Web answer calls that a front passes on with the evidence of their callers.
func (r *Reader) Conn() *grpc.ClientConn { return r.conn }
func (r *Reader) Web() http.Handler      { return r.web }

// Close ends the calls under way.
func (r *Reader) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r.server.Shutdown(ctx)
	if r.conn != nil {
		_ = r.conn.Close()
	}
	r.reports.Close()
	r.controller.Close()
}

// whole returns an error if a part of a scheduler's records cannot be read.
func whole(one *controller.Saved) error {
	err := one.Fault
	for _, c := range one.Configurations {
		if c.State == rollout.Lost {
			err = errors.Join(err, errors.New(c.Reason))
		}
	}
	for _, r := range one.Revisions {
		err = errors.Join(err, r.Damage)
	}
	return err
}

// errUnwritten is the error of writes to a copy.
var errUnwritten = errors.New("a copy of the records is only read")

// unwritten is a copy as a store that takes no writes.
type unwritten struct{ Copy }

// Load returns an error if any record cannot be read: other copies may have it.
func (u unwritten) Load() ([]controller.Saved, []controller.Request, []controller.Damage, error) {
	saved, _, damage, err := u.Copy.Load()
	for _, d := range damage {
		err = errors.Join(err, d.Err)
	}
	for i := range saved {
		err = errors.Join(err, whole(&saved[i]))
	}
	return saved, nil, nil, err
}

func (unwritten) Commit(context.Context, controller.Change) error    { return errUnwritten }
func (unwritten) Purge(context.Context, controller.Expired) error    { return errUnwritten }
func (unwritten) Remember(context.Context, controller.Request) error { return errUnwritten }
func (unwritten) Note(context.Context, audit.Record) error           { return errUnwritten }
func (unwritten) ArchiveAudit(context.Context, time.Time) error      { return errUnwritten }
func (unwritten) KeepRound(string, int64, []byte, int) error         { return errUnwritten }

func (unwritten) AppendEvents(context.Context, string, []workload.Event) error { return errUnwritten }

func (unwritten) DropEvents(context.Context, controller.Retention) ([]string, error) {
	return nil, errUnwritten
}

func (unwritten) AppendReports(string, []reports.Report, reports.Keep) ([]bool, []reports.Key, error) {
	return nil, nil, errUnwritten
}
