package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/forward"
)

// rule says which callers may call a method.
type rule struct {
	open  bool // without an identity, too
	roles []access.Role
	// question says that the answer is computed: those of a caller at a time are bounded.
	question bool
	// own is the field of the request that names the scheduler. Callers of role
	// scheduler may name their own alone; they may not call at all if it is "".
	own string
	// copied says that the answer is made of records alone, which a copy of the store has, too.
	copied bool
}

// FromCopy reports whether a copy of the records of a service can answer a method.
func FromCopy(method string) bool { return methodRules[method].copied }

var (
	allRoles      = []access.Role{access.Viewer, access.Scheduler, access.Operator, access.Admin}
	readerRoles   = []access.Role{access.Viewer, access.Operator, access.Admin}
	operatorRoles = []access.Role{access.Operator, access.Admin}
	adminRoles    = []access.Role{access.Admin}
)

// methodRules is the one place where roles become permissions. A method that is not in
// it is refused.
var methodRules = map[string]rule{
	pb.TuningService_CreateScheduler_FullMethodName:        {roles: adminRoles, own: "scheduler_id"},
	pb.TuningService_GetScheduler_FullMethodName:           {roles: readerRoles, own: "name"},
	pb.TuningService_ListSchedulers_FullMethodName:         {roles: readerRoles},
	pb.TuningService_GetSchedulerRevision_FullMethodName:   {copied: true, roles: readerRoles, own: "name"},
	pb.TuningService_ListSchedulerRevisions_FullMethodName: {copied: true, roles: readerRoles, own: "parent"},
	pb.TuningService_UpdateScheduler_FullMethodName:        {roles: operatorRoles},
	pb.TuningService_PauseTuning_FullMethodName:            {roles: operatorRoles},
	pb.TuningService_ResumeTuning_FullMethodName:           {roles: operatorRoles},
	pb.TuningService_DeleteScheduler_FullMethodName:        {roles: adminRoles},
	pb.TuningService_UndeleteScheduler_FullMethodName:      {roles: adminRoles},
	pb.TuningService_IngestEvents_FullMethodName:           {roles: adminRoles, own: "parent"},
	pb.TuningService_FreezeTuning_FullMethodName:           {roles: operatorRoles},
	pb.TuningService_UnfreezeTuning_FullMethodName:         {roles: operatorRoles},

	pb.ConfigurationService_GetCurrentConfiguration_FullMethodName:  {copied: true, roles: readerRoles, own: "name"},
	pb.ConfigurationService_WatchConfigurations_FullMethodName:      {roles: readerRoles, own: "parent"},
	pb.ConfigurationService_GetConfiguration_FullMethodName:         {copied: true, roles: readerRoles, own: "name"},
	pb.ConfigurationService_ListConfigurations_FullMethodName:       {copied: true, roles: readerRoles, own: "parent"},
	pb.ConfigurationService_AcknowledgeConfiguration_FullMethodName: {roles: operatorRoles, own: "name"},
	pb.ConfigurationService_ApproveConfiguration_FullMethodName:     {roles: operatorRoles},
	pb.ConfigurationService_RollbackConfiguration_FullMethodName:    {roles: operatorRoles},
	pb.ConfigurationService_ProposeConfiguration_FullMethodName:     {roles: operatorRoles},
	pb.ConfigurationService_PinConfiguration_FullMethodName:         {roles: operatorRoles},
	pb.ConfigurationService_UnpinConfiguration_FullMethodName:       {roles: operatorRoles},
	pb.ConfigurationService_RejectConfiguration_FullMethodName:      {roles: operatorRoles},
	pb.ConfigurationService_ParkConfiguration_FullMethodName:        {roles: operatorRoles},
	pb.ConfigurationService_UnparkConfiguration_FullMethodName:      {roles: operatorRoles},
	pb.ConfigurationService_ListParkedConfigurations_FullMethodName: {roles: readerRoles, own: "parent"},
	pb.ConfigurationService_ForgetInstance_FullMethodName:           {roles: operatorRoles},

	pb.MaintenanceService_Backup_FullMethodName:   {roles: adminRoles},
	pb.MaintenanceService_Compact_FullMethodName:  {roles: adminRoles},
	pb.MaintenanceService_Diagnose_FullMethodName: {roles: readerRoles},

	pb.AuditService_ListAuditRecords_FullMethodName: {copied: true, roles: operatorRoles},

	pb.OperationService_TriggerRound_FullMethodName:    {roles: operatorRoles},
	pb.OperationService_GetOperation_FullMethodName:    {roles: readerRoles},
	pb.OperationService_ListOperations_FullMethodName:  {roles: readerRoles},
	pb.OperationService_WaitOperation_FullMethodName:   {roles: readerRoles},
	pb.OperationService_CancelOperation_FullMethodName: {roles: operatorRoles},

	pb.ExplanationService_ValidateParameters_FullMethodName:   {roles: readerRoles, own: "name"},
	pb.ExplanationService_ExplainConfiguration_FullMethodName: {question: true, roles: readerRoles, own: "name"},
	pb.ExplanationService_WhatIf_FullMethodName:               {question: true, roles: readerRoles, own: "name"},
	pb.ExplanationService_GetCausalModel_FullMethodName:       {question: true, roles: readerRoles, own: "name"},

	pb.RoundService_GetRound_FullMethodName:   {roles: readerRoles, own: "name"},
	pb.RoundService_ListRounds_FullMethodName: {roles: readerRoles, own: "parent"},

	pb.StudyService_CreateStudy_FullMethodName:                  {roles: operatorRoles, own: "parent"},
	pb.StudyService_GetStudy_FullMethodName:                     {roles: readerRoles, own: "name"},
	pb.StudyService_ListStudies_FullMethodName:                  {roles: readerRoles, own: "parent"},
	pb.StudyService_DeleteStudy_FullMethodName:                  {roles: operatorRoles},
	pb.StudyService_PauseStudy_FullMethodName:                   {roles: operatorRoles},
	pb.StudyService_ResumeStudy_FullMethodName:                  {roles: operatorRoles},
	pb.StudyService_CancelStudy_FullMethodName:                  {roles: operatorRoles},
	pb.StudyService_RunStudy_FullMethodName:                     {roles: operatorRoles},
	pb.StudyService_ListEvaluators_FullMethodName:               {roles: readerRoles, own: "parent"},
	pb.StudyService_SuggestTrials_FullMethodName:                {roles: operatorRoles, own: "parent"},
	pb.StudyService_CreateTrial_FullMethodName:                  {roles: operatorRoles, own: "parent"},
	pb.StudyService_BatchCreateTrials_FullMethodName:            {roles: operatorRoles, own: "parent"},
	pb.StudyService_GetTrial_FullMethodName:                     {roles: readerRoles, own: "name"},
	pb.StudyService_ListTrials_FullMethodName:                   {roles: readerRoles, own: "parent"},
	pb.StudyService_AddTrialMeasurement_FullMethodName:          {roles: operatorRoles, own: "name"},
	pb.StudyService_CompleteTrial_FullMethodName:                {roles: operatorRoles, own: "name"},
	pb.StudyService_StopTrial_FullMethodName:                    {roles: operatorRoles, own: "name"},
	pb.StudyService_CheckTrialEarlyStoppingState_FullMethodName: {roles: operatorRoles, own: "name"},
	pb.StudyService_RenewTrialLease_FullMethodName:              {roles: operatorRoles, own: "name"},
	pb.StudyService_ProposeTrial_FullMethodName:                 {roles: operatorRoles, own: "name"},
	pb.StudyService_ListOptimalTrials_FullMethodName:            {roles: readerRoles, own: "parent"},
	pb.StudyService_EstimateStudy_FullMethodName:                {roles: readerRoles, own: "name"},

	pb.TelemetryService_IngestTelemetry_FullMethodName: {roles: adminRoles, own: "parent"},
	pb.TelemetryService_ListTelemetry_FullMethodName:   {roles: readerRoles, own: "parent"},

	pb.MetricService_ReportMetrics_FullMethodName: {roles: adminRoles, own: "parent"},
	pb.MetricService_ListMetrics_FullMethodName:   {roles: readerRoles, own: "parent"},

	pb.WorkloadService_GenerateWorkload_FullMethodName: {roles: operatorRoles},
	pb.WorkloadService_UploadWorkload_FullMethodName:   {roles: operatorRoles},
	pb.WorkloadService_GetWorkload_FullMethodName:      {roles: readerRoles, own: "name"},
	pb.WorkloadService_ListWorkloads_FullMethodName:    {roles: readerRoles, own: "parent"},
	pb.WorkloadService_DeleteWorkload_FullMethodName:   {roles: operatorRoles},
	pb.WorkloadService_DownloadWorkload_FullMethodName: {roles: readerRoles, own: "name"},

	pb.JobService_ExplainJob_FullMethodName:         {question: true, roles: readerRoles, own: "name"},
	pb.JobService_ForecastLoad_FullMethodName:       {question: true, roles: readerRoles, own: "name"},
	pb.JobService_GetEnergy_FullMethodName:          {question: true, roles: readerRoles, own: "name"},
	pb.JobService_GetForecastQuality_FullMethodName: {question: true, roles: readerRoles, own: "name"},
	pb.JobService_GetJob_FullMethodName:             {roles: readerRoles, own: "name"},
	pb.JobService_GetLoad_FullMethodName:            {roles: readerRoles, own: "name"},
	pb.JobService_GetTuningGain_FullMethodName:      {question: true, roles: readerRoles, own: "name"},
	pb.JobService_GetTimeline_FullMethodName:        {question: true, roles: readerRoles, own: "name"},
	pb.JobService_ListJobs_FullMethodName:           {roles: readerRoles, own: "parent"},
	pb.JobService_ListTenants_FullMethodName:        {question: true, roles: readerRoles, own: "parent"},

	pb.FindingService_ListFindings_FullMethodName:       {roles: readerRoles, own: "parent"},
	pb.FindingService_GetFinding_FullMethodName:         {roles: readerRoles, own: "name"},
	pb.FindingService_AcknowledgeFinding_FullMethodName: {roles: operatorRoles},
	pb.FindingService_SnoozeFinding_FullMethodName:      {roles: operatorRoles},
	pb.FindingService_MarkFalsePositive_FullMethodName:  {roles: operatorRoles},

	healthpb.Health_Check_FullMethodName:                                   {open: true},
	healthpb.Health_Watch_FullMethodName:                                   {open: true},
	healthpb.Health_List_FullMethodName:                                    {open: true},
	reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName:      {roles: allRoles},
	reflectionalphapb.ServerReflection_ServerReflectionInfo_FullMethodName: {roles: allRoles},
}

// allows reports whether a caller may call the method about a scheduler.
func (r rule) allows(c access.Caller, scheduler string) bool {
	if slices.Contains(r.roles, c.Role) {
		return true
	}
	return c.Role == access.Scheduler && r.own != "" && scheduler == c.Scheduler
}

// schedulerIn is the id of the scheduler that a request names in a field, given
// alone or in a name such as schedulers/prod/configurations/1.
func schedulerIn(m any, field string) string {
	msg, ok := m.(proto.Message)
	if !ok || field == "" {
		return ""
	}
	r := msg.ProtoReflect()
	fd := r.Descriptor().Fields().ByName(protoreflect.Name(field))
	if fd == nil {
		return ""
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(r.Get(fd).String(), convert.SchedulersPrefix), "/")
	id, _, _ = strings.Cut(id, "@")
	return id
}

// guard lets calls through to handlers by the rules.
type guard struct {
	server *Server
	access *access.Source // nil: every caller is an admin without a name

	mu   sync.Mutex
	open map[*guardedStream]bool
}

func newGuard(s *Server, a *access.Source) *guard {
	g := &guard{server: s, access: a, open: map[*guardedStream]bool{}}
	if a != nil {
		a.After(g.review)
	}
	return g
}

func (g *guard) identify(c access.Credential) (access.Caller, error) {
	if g.access == nil {
		return access.Caller{Role: access.Admin}, nil
	}
	return g.access.Identify(c)
}

// admit finds the caller of a method and refuses one without a role for it. About
// which scheduler it is comes with the request.
func (g *guard) admit(method string, c access.Credential) (access.Caller, rule, error) {
	r, ok := methodRules[method]
	if !ok {
		return access.Caller{}, r, fmt.Errorf("%w: %s has no rule", access.ErrRole, method)
	}
	if g.server.copy && !r.copied {
		return access.Caller{}, r, status.Errorf(codes.Unimplemented, "a copy does not answer %s", path.Base(method))
	}
	if r.open {
		return access.Caller{}, r, nil
	}
	caller, err := g.identify(c)
	if err == nil && !r.allows(caller, caller.Scheduler) {
		err = denied(caller, method, r.roles)
	}
	return caller, r, err
}

func denied(c access.Caller, method string, roles []access.Role) error {
	var may []string
	for _, r := range roles {
		may = append(may, string(r))
	}
	return fmt.Errorf("%w: %s has role %s, which may not call %s; %s may", access.ErrRole, c.Name, c.Role,
		path.Base(method), strings.Join(may, " or "))
}

func deniedScheduler(c access.Caller) error {
	return fmt.Errorf("%w: %s is scheduler %s, not the one that the request names", access.ErrRole, c.Name, c.Scheduler)
}

// refused is the answer to a call that the rules do not allow. Calls without an
// identity are counted by the metrics alone: anything may send them.
func (g *guard) refused(ctx context.Context, c access.Caller, method string, err error) error {
	if c.Name != "" {
		g.server.log.WarnContext(access.NewContext(ctx, c), "call refused", "method", method, "err", err)
	}
	return err
}

func credentialOf(ctx context.Context) (access.Credential, error) {
	var state *tls.ConnectionState
	if p, ok := peer.FromContext(ctx); ok {
		switch info := p.AuthInfo.(type) {
		case credentials.TLSInfo:
			state = &info.State
		case localInfo:
			return access.LocalCredential(info.caller), nil
		case relayInfo:
			return info.relay.credentialOf(ctx)
		case forward.Info:
			var err error
			if state, err = forward.State(ctx); err != nil {
				return access.Credential{}, fmt.Errorf("%w: %w", access.ErrIdentity, err)
			}
		}
	}
	header := ""
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		header = strings.Join(md.Get("authorization"), ",")
	}
	return access.NewCredential(state, header)
}

func (g *guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	credential, err := credentialOf(ctx)
	if err != nil && !methodRules[info.FullMethod].open {
		return nil, err
	}
	caller, r, err := g.admit(info.FullMethod, credential)
	if err == nil && !r.open && !r.allows(caller, schedulerIn(req, r.own)) {
		err = deniedScheduler(caller)
	}
	if err != nil {
		return nil, g.refused(ctx, caller, info.FullMethod, err)
	}
	if !r.open {
		if err := g.server.quota.Request(caller); err != nil {
			return nil, err
		}
	}
	if r.question {
		leave, err := g.server.quota.Question(caller)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	ctx, began := access.NewContext(ctx, caller), time.Now()
	resp, err := handle(ctx, req)
	g.server.logAccess(ctx, info.FullMethod, schedulerOf(req), r, began, err)
	return resp, err
}

func (g *guard) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handle grpc.StreamHandler) error {
	credential, err := credentialOf(stream.Context())
	if err != nil && !methodRules[info.FullMethod].open {
		return err
	}
	caller, r, err := g.admit(info.FullMethod, credential)
	if err != nil {
		return g.refused(stream.Context(), caller, info.FullMethod, err)
	}
	if r.open {
		leave, err := g.server.quota.Anonymous(forward.Context(stream.Context()))
		if err != nil {
			return err
		}
		defer leave()
	} else if err := g.server.quota.Request(caller); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(access.NewContext(stream.Context(), caller))
	defer cancel(nil)
	guarded := &guardedStream{ServerStream: stream, guard: g, ctx: ctx, cancel: cancel, method: info.FullMethod,
		rule: r, credential: credential, caller: caller}
	g.mu.Lock()
	g.open[guarded] = true
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.open, guarded)
		g.mu.Unlock()
	}()
	began := time.Now()
	err = handle(srv, guarded)
	scheduler, _ := guarded.scheduler.Load().(string)
	g.server.logAccess(ctx, info.FullMethod, scheduler, r, began, err)
	if lost := context.Cause(ctx); err != nil && guarded.lost(lost) {
		return g.refused(stream.Context(), caller, info.FullMethod, lost)
	}
	return err
}

// review ends the open streams whose callers may no longer have them: a token that
// was revoked, a certificate that expired, a role that changed.
func (g *guard) review() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.open {
		caller, _, err := g.admit(s.method, s.credential)
		if err == nil && caller != s.caller {
			err = fmt.Errorf("%w: the role of %s changed; call again", access.ErrIdentity, s.caller.Name)
		}
		if err != nil {
			s.cancel(err)
		}
	}
}

// guardedStream checks each request of a stream, the first of which says about
// which scheduler it is.
type guardedStream struct {
	grpc.ServerStream
	guard      *guard
	ctx        context.Context
	cancel     context.CancelCauseFunc
	method     string
	rule       rule
	credential access.Credential
	caller     access.Caller
	named      bool // a request named the scheduler
	// scheduler is that name. The handler may end before a request is received.
	scheduler atomic.Value
}

// Context has the caller, and ends when it loses the right to the stream.
func (s *guardedStream) Context() context.Context { return s.ctx }

// lost reports whether the cause of a stream's end is the loss of a right.
func (s *guardedStream) lost(cause error) bool {
	return cause != nil && cause != context.Canceled && cause != s.ServerStream.Context().Err()
}

// RecvMsg receives a request and refuses one that names another scheduler.
func (s *guardedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if cause := context.Cause(s.ctx); cause != nil {
		return cause
	}
	id := schedulerIn(m, s.rule.own)
	if s.rule.open || id == "" && s.named {
		return nil // the handler goes on with the scheduler named before
	}
	s.named = true
	s.scheduler.Store(id)
	if !s.rule.allows(s.caller, id) {
		return s.guard.refused(s.ctx, s.caller, s.method, deniedScheduler(s.caller))
	}
	return nil
}

// AgentOptions are the options of a server of SchedulerAgent: encrypted as the files say, for operators and admins.
func AgentOptions(files *access.Source) []grpc.ServerOption {
	admit := func(ctx context.Context, method string) error {
		credential, err := credentialOf(ctx)
		var caller access.Caller
		if err == nil {
			caller, err = files.Identify(credential)
		}
		switch {
		case errors.Is(err, access.ErrIdentity):
			return status.Error(codes.Unauthenticated, err.Error())
		case err == nil && !slices.Contains(operatorRoles, caller.Role):
			err = fmt.Errorf("%w: %s has role %s, which may not call %s; operator or admin may", access.ErrRole,
				caller.Name, caller.Role, path.Base(method))
		}
		if err != nil {
			return status.Error(codes.PermissionDenied, err.Error())
		}
		return nil
	}
	options := []grpc.ServerOption{
		grpc.ConnectionTimeout(20 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second,
			PermitWithoutStream: true}),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (
			any, error) {
			if err := admit(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return handle(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
			handle grpc.StreamHandler) error {
			if err := admit(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return handle(srv, stream)
		}),
	}
	if config := files.TLS("h2"); config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	return options
}

// Connect returns a connection within the process, for a part of it that is a client of the API:
// a caller of this name with the role of the scheduler. It ends with the server.
func (s *Server) Connect(name, scheduler string) (*grpc.ClientConn, error) {
	l := bufconn.Listen(1 << 20)
	caller := access.Caller{Name: name, Role: access.Scheduler, Scheduler: scheduler}
	go func() { _ = s.grpc.Serve(localListener{l, localInfo{private, caller}}) }()
	return dialLocal(l)
}

func dialLocal(l *bufconn.Listener, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///local", append(more,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))...)
}

// ConnectFront makes a connection for calls that a front in this process passes on with the evidence of their callers.
func (s *Server) ConnectFront() (*grpc.ClientConn, error) {
	l := bufconn.Listen(1 << 20)
	go func() { _ = s.grpc.Serve(localListener{l, forward.FromGate()}) }()
	return dialLocal(l, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32),
		grpc.MaxCallSendMsgSize(math.MaxInt32)))
}

// private is the security of a connection that does not leave the process.
var private = credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}

// localListener accepts connections within the process, which info identifies.
type localListener struct {
	net.Listener
	info credentials.AuthInfo
}

// Accept implements [net.Listener].
func (l localListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return localConn{conn, l.info}, err
}

type localConn struct {
	net.Conn
	info credentials.AuthInfo
}

// localInfo says that the caller is in this process.
type localInfo struct {
	credentials.CommonAuthInfo
	caller access.Caller
}

// AuthType implements [credentials.AuthInfo].
func (localInfo) AuthType() string { return "local" }

// localCredentials shake hands with connections from elsewhere only.
type localCredentials struct {
	credentials.TransportCredentials
}

// ServerHandshake implements [credentials.TransportCredentials].
func (c localCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if l, ok := conn.(localConn); ok {
		return l.Conn, l.info, nil
	}
	return c.TransportCredentials.ServerHandshake(conn)
}

// Clone implements [credentials.TransportCredentials].
func (c localCredentials) Clone() credentials.TransportCredentials {
	return localCredentials{c.TransportCredentials.Clone()}
}
