// Command oapi sends an event and a batch with the client that oapi-codegen made.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	api "clients/oapi"
)

func main() {
	authorize := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Getenv("SLUICE_API_KEY"))
		return nil
	}
	c, err := api.NewClientWithResponses(os.Getenv("SLUICE_URL"), api.WithRequestEditorFn(authorize))
	if err != nil {
		log.Fatal(err)
	}
	text := func(s string) *string { return &s }
	event := api.Event{
		DataSetId: "shop", Timestamp: time.Now().Unix(), EventType: api.Purchase,
		CurrencyCode: text("EUR"), CustomData: &map[string]any{"order": "oapi", "items": []int{1}},
	}
	event.Identifiers.EmailSha256 = text(os.Getenv("EMAIL_SHA256"))
	value := 49.5
	event.Value = &value
	ctx := context.Background()
	one, err := c.SendEventWithResponse(ctx, nil, event)
	if err != nil || one.JSON200 == nil {
		log.Fatal(err, string(one.Body))
	}
	bad := event
	bad.CurrencyCode = nil
	batch, err := c.SendBatchWithResponse(ctx, &api.SendBatchParams{IdempotencyKey: text("oapi-1")}, api.Batch{event, bad})
	if err != nil || batch.JSON200 == nil || batch.JSON200.Errors == nil {
		log.Fatal(err, string(batch.Body))
	}
	problem := (*batch.JSON200.Errors)[0]
	include := api.ReadSubmissionParamsInclude("events")
	found, err := c.ReadSubmissionWithResponse(ctx, one.JSON200.SubmissionId, &api.ReadSubmissionParams{Include: &include})
	if err != nil || found.JSON200 == nil {
		log.Fatal(err, string(found.Body))
	}
	fmt.Println(one.JSON200.Status, *problem.Index, problem.ErrorCode, found.JSON200.Accepted, len(*found.JSON200.Events))
}
