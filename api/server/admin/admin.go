// Package admin serves maintenance and the audit log.
package admin

import (
	"log/slog"
	"sync"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/service/store"
)

// Controller is the part of controller.Service that the service calls.
type Controller interface {
	AuditLog(before int64, resource string, limit int) (out []controller.AuditRecord, err error)
	Quarantined() map[string]error
	Rebuilt() <-chan struct{}
	Scheduler(id string) (controller.Scheduler, controller.Status, error)
	Schedulers(after string, limit int) []string
}

// Config configures the service of maintenance and the audit log.
type Config struct {
	Controller Controller
	Store      *store.Store   // backups are refused, and it is not checked, if nil
	Samples    *samples.Store // nil if no telemetry is kept
	Access     *access.Source // nil if callers are not identified
	Log        *slog.Logger
	Pages      rpc.Pager
	Version    string // of the program
}

// Service serves maintenance and the audit log.
type Service struct {
	pb.UnimplementedMaintenanceServiceServer
	pb.UnimplementedAuditServiceServer

	o      Config
	backup sync.Mutex // held by the backup under way
}

// New returns the service of maintenance and of the audit log.
func New(o Config) *Service { return &Service{o: o} }
