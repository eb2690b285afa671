package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// follow applies and acknowledges offers until the context ends or the
// service refuses the client for good.
func (c *Client) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	offers := make(chan *pb.Configuration, 1)
	receive := c.watch
	if c.o.Poll {
		receive = c.poll
	}
	var failure error // set before ended is closed
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failure = receive(ctx, func(offer *pb.Configuration) {
			select {
			case <-offers: // a newer one takes its place
			default:
			}
			offers <- offer
		})
	}()
	err := c.applyAll(ctx, offers, ended)
	cancel()
	<-ended
	if err != nil {
		return err
	}
	return failure
}

// applyAll applies the newest offer, and again if that failed, until receiving ended.
func (c *Client) applyAll(ctx context.Context, offers <-chan *pb.Configuration, ended <-chan struct{}) error {
	retry := retrying{random: c.o.Random}
	again := time.NewTimer(time.Hour)
	again.Stop()
	defer again.Stop()
	var offer *pb.Configuration
	for {
		select {
		case <-ended:
			return nil
		case offer = <-offers:
			retry.reset()
			select {
			case <-c.reapply: // the lost values have been replaced
			default:
			}
		case <-again.C:
		case <-c.reapply:
			if offer == nil || c.inForce != offer {
				continue // it is being applied, or refused
			}
			c.lost = true
		}
		final, err := c.install(ctx, offer)
		if err != nil {
			return err
		}
		again.Stop()
		if !final {
			d, _ := retry.delay(errAgain)
			again.Reset(d)
		}
	}
}

var errAgain = errors.New("not applied")

// watch receives offers from a stream and connects again when it fails.
func (c *Client) watch(ctx context.Context, offer func(*pb.Configuration)) error {
	retry := retrying{random: c.o.Random}
	token := ""
	for {
		err := c.watchOnce(ctx, &token, &retry, offer)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case status.Code(err) == codes.OutOfRange && token != "":
			token = "" // of another epoch
		case !Transient(err):
			return fmt.Errorf("watch %s: %w", c.name, err)
		case !c.pause(ctx, &retry, err):
			return ctx.Err()
		}
	}
}

func (c *Client) watchOnce(ctx context.Context, token *string, retry *retrying, offer func(*pb.Configuration)) error {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	stream, err := c.config.WatchConfigurations(ctx, &pb.WatchConfigurationsRequest{Parent: c.name,
		ResumeToken: *token, SendInitialEvents: *token == "", InstanceId: c.o.Instance})
	if err != nil {
		return err
	}
	paused := false // a watch begins with the present state, which the bookmark ends
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		retry.reset()
		*token = m.GetResumeToken()
		switch e := m.GetEvent().(type) {
		case *pb.WatchConfigurationsResponse_Paused_:
			paused = true
			c.tellPaused(e.Paused)
		case *pb.WatchConfigurationsResponse_Resumed_:
			paused = false
			c.tellPaused(nil)
		case *pb.WatchConfigurationsResponse_Bookmark_:
			if !paused {
				c.tellPaused(nil)
			}
		}
		if got := m.GetConfiguration(); got != nil {
			offer(got)
		}
	}
}

// tellPaused reports that tuning is paused, or with nil that it is not, if that is news.
func (c *Client) tellPaused(p *pb.WatchConfigurationsResponse_Paused) {
	if now := p != nil; now != c.paused {
		c.paused = now
		if c.o.Paused != nil {
			c.o.Paused(p)
		}
	}
}

// poll asks for the configuration as often as the service says.
func (c *Client) poll(ctx context.Context, offer func(*pb.Configuration)) error {
	etag := ""
	newest := metadata.AppendToOutgoingContext(ctx, maxStalenessKey, "0s")
	for {
		var got *pb.GetCurrentConfigurationResponse
		err := c.persist(ctx, func() (err error) {
			got, err = c.config.GetCurrentConfiguration(newest, &pb.GetCurrentConfigurationRequest{Name: c.name,
				IfNoneMatch: etag, InstanceId: c.o.Instance})
			return err
		})
		if err != nil {
			return fmt.Errorf("poll %s: %w", c.name, err)
		}
		if now := got.GetConfiguration(); now != nil {
			etag = now.GetEtag()
			offer(now)
		}
		if !Sleep(ctx, max(got.GetPollAfter().AsDuration(), firstDelay)) {
			return ctx.Err()
		}
	}
}

// install applies an offer and acknowledges the outcome. It reports whether that is
// final: false means that the offer is to be applied again.
func (c *Client) install(ctx context.Context, offer *pb.Configuration) (final bool, err error) {
	now, then := offer.GetEpoch(), c.inForce.GetEpoch()
	if now.GetCounter() < then.GetCounter() {
		c.o.Notify(fmt.Errorf("%s is of epoch %d of the store, before %d, and not applied: an old copy of the store is "+
			"served", offer.GetName(), now.GetCounter(), then.GetCounter()))
		return true, nil
	}
	if c.inForce != nil && now.GetId() != then.GetId() {
		c.enter(now)
	}
	if c.inForce != nil && now.GetId() == then.GetId() && offer.GetRevision() == c.inForce.GetRevision() && !c.lost {
		c.inForce = offer
		return true, nil
	}
	effective, err := c.o.Apply(ctx, offer)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	ack := Outcome(offer, effective, err)
	if ack.InstanceId = c.o.Instance; err == nil {
		c.inForce, c.lost = offer, false
		c.revision.Store(offer.GetRevision())
		ack.AppliedTime = timestamppb.New(c.o.Now())
	}
	return ack.State != pb.Acknowledgement_FAILED, c.acknowledge(ctx, offer, ack)
}

// Outcome acknowledges an attempt to apply a configuration, with the values in force after it, nil as sent, and its
// error.
func Outcome(c *pb.Configuration, effective map[string]*structpb.Value, err error) *pb.Acknowledgement {
	ack := &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED}
	switch {
	case errors.Is(err, ErrRefused):
		ack.State, ack.Error = pb.Acknowledgement_REJECTED, shorten(err.Error())
	case err != nil:
		ack.State, ack.Error = pb.Acknowledgement_FAILED, shorten(err.Error())
	default:
		if ack.EffectiveParameters = Differing(c, effective); len(ack.EffectiveParameters) > 0 {
			ack.State = pb.Acknowledgement_PARTIALLY_APPLIED
		}
	}
	return ack
}

// Differing returns the values that differ from the configuration. Values of
// parameters that the configuration leaves out do not count.
func Differing(c *pb.Configuration, values map[string]*structpb.Value) map[string]*structpb.Value {
	out := maps.Clone(values)
	maps.DeleteFunc(out, func(id string, v *structpb.Value) bool {
		sent, ok := c.GetParameters()[id]
		return !ok || proto.Equal(sent, v)
	})
	return out
}

// acknowledge reports the outcome of an offer, until the service has heard it or offers
// something else.
func (c *Client) acknowledge(ctx context.Context, offer *pb.Configuration, ack *pb.Acknowledgement) error {
	err := c.persist(ctx, func() error {
		_, err := c.config.AcknowledgeConfiguration(ctx, &pb.AcknowledgeConfigurationRequest{Name: offer.GetName(),
			Acknowledgement: ack, ContentHash: offer.GetContentHash(), Epoch: offer.GetEpoch()})
		return err
	})
	switch Reason(err) {
	case reasonEpoch, reasonRefused: // the service offers something else
		c.o.Notify(err)
		return nil
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("acknowledge %s: %w", offer.GetName(), err)
	}
	return err
}

// maxError is how long the text of an acknowledgement may be, in bytes.
const maxError = 1024

func shorten(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxError)], "") }
