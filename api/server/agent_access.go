package server

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/api/access"
)

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
