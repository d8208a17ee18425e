package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
)

// PartitionCopy describes a copy of a partition: what the engine needs to make the same partition from its bytes.
type PartitionCopy struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
	Stream string          `json:"stream"` // identity of the stream
}

const (
	// copyChunk is how much the engine sends, or takes, in one message. It is what its default is.
	copyChunk = 128 << 10
	// copyWait bounds the wait for one chunk (arbitrary): the engine gives up a copy after some seconds without an answer.
	copyWait = 30 * time.Second
)

// CountPartitions returns how many partitions there are.
func (e *Engine) CountPartitions(ctx context.Context) (int, error) {
	there, err := e.findPartitions(ctx)
	return len(there), err
}

// CopyPartition writes a partition, as it is at one moment, to w: every message with its number, time and key. Writers go on
// meanwhile. RestorePartition reads what it wrote.
func (e *Engine) CopyPartition(ctx context.Context, p uint8, w io.Writer) (PartitionCopy, error) {
	nc, err := e.dialReader()
	if err != nil {
		return PartitionCopy{}, err
	}
	defer nc.Close()
	made, err := copyPartition(ctx, nc, p, w)
	if err == nil {
		made.Stream, err = e.identity(ctx)
	}
	if err != nil {
		return PartitionCopy{}, fmt.Errorf("copy partition %d: %w", p, translate(err))
	}
	return made, nil
}

func copyPartition(ctx context.Context, nc *nats.Conn, p uint8, w io.Writer) (made PartitionCopy, err error) {
	inbox := nats.NewInbox()
	chunks, err := nc.SubscribeSync(inbox)
	if err != nil {
		return made, err
	}
	defer func() { _ = chunks.Unsubscribe() }() // the connection is closed anyway
	request, err := json.Marshal(map[string]any{"deliver_subject": inbox, "no_consumers": true, "chunk_size": copyChunk})
	if err != nil {
		return made, err
	}
	var answer struct {
		Error *apiError `json:"error"`
		PartitionCopy
	}
	if err := askJSON(ctx, nc, "$JS.API.STREAM.SNAPSHOT."+partitionName(p), request, &answer); err != nil {
		return made, err
	}
	if answer.Error != nil {
		return made, answer.Error.asError()
	}
	for {
		wait, cancel := context.WithTimeout(ctx, copyWait)
		chunk, err := chunks.NextMsgWithContext(wait)
		cancel()
		if err != nil {
			return made, err
		}
		if len(chunk.Data) == 0 { // the end, with a status where the engine gave up
			if status := chunk.Header.Get("Status"); status != "" && status != "204" {
				return made, fmt.Errorf("the engine ended the copy with status %s", status)
			}
			return answer.PartitionCopy, nil
		}
		if _, err := w.Write(chunk.Data); err != nil {
			return made, err
		}
		if chunk.Reply != "" {
			if err := nc.Publish(chunk.Reply, nil); err != nil {
				return made, err
			}
		}
	}
}

// RestorePartition makes a partition from a copy. It must not exist. It has one copy here, however many it had.
func (e *Engine) RestorePartition(ctx context.Context, p uint8, from PartitionCopy, r io.Reader) error {
	nc, err := e.dialReader()
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := restorePartition(ctx, nc, p, from, r); err != nil {
		return fmt.Errorf("restore partition %d: %w", p, translate(err))
	}
	return nil
}

func restorePartition(ctx context.Context, nc *nats.Conn, p uint8, from PartitionCopy, r io.Reader) error {
	config := map[string]any{}
	if err := json.Unmarshal(from.Config, &config); err != nil {
		return err
	}
	if config["name"] != partitionName(p) {
		return errors.New("the copy is of something else")
	}
	metadata, _ := config["metadata"].(map[string]any)
	if metadata == nil || from.Stream == "" {
		return errors.New("the copy does not say which stream it is of")
	}
	metadata[restoredIdentity] = from.Stream
	delete(metadata, movedCreation) // the copy gives numbers out again that cursors may name
	config["num_replicas"] = 1
	delete(config, "placement")
	request, err := json.Marshal(map[string]any{"config": config, "state": from.State})
	if err != nil {
		return err
	}
	var begun struct {
		Error   *apiError `json:"error"`
		Deliver string    `json:"deliver_subject"`
	}
	if err := askJSON(ctx, nc, "$JS.API.STREAM.RESTORE."+partitionName(p), request, &begun); err != nil {
		return err
	}
	if begun.Error != nil {
		return begun.Error.asError()
	}
	buf := make([]byte, copyChunk)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if err := sendChunk(ctx, nc, begun.Deliver, buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return sendChunk(ctx, nc, begun.Deliver, nil) // the engine answers when the partition is there
		}
		if err != nil {
			return err
		}
	}
}

// sendChunk sends a part of a copy, and waits until the engine has it.
func sendChunk(ctx context.Context, nc *nats.Conn, subject string, chunk []byte) error {
	ctx, cancel := context.WithTimeout(ctx, copyWait)
	defer cancel()
	reply, err := nc.RequestWithContext(ctx, subject, chunk)
	if err != nil || len(reply.Data) == 0 {
		return err
	}
	var answer struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error.asError()
	}
	return nil
}

func askJSON(ctx context.Context, nc *nats.Conn, subject string, request []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, copyWait)
	defer cancel()
	reply, err := nc.RequestWithContext(ctx, subject, request)
	if err != nil {
		return err
	}
	return json.Unmarshal(reply.Data, answer)
}
