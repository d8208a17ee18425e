// Command ogen sends an event and a batch with the client that ogen made.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	api "clients/ogen"
)

type key string

// Key is what the client puts into the Authorization header.
func (k key) Key(context.Context, api.OperationName) (api.Key, error) {
	return api.Key{Token: string(k)}, nil
}

func main() {
	c, err := api.NewClient(os.Getenv("SLUICE_URL"), key(os.Getenv("SLUICE_API_KEY")))
	if err != nil {
		log.Fatal(err)
	}
	event := api.Event{
		DataSetID: "shop", Timestamp: time.Now().Unix(), EventType: api.EventEventTypePurchase,
		Value: api.NewOptNilFloat64(49.5), CurrencyCode: api.NewOptNilString("EUR"),
		Identifiers: api.EventIdentifiers{EmailSHA256: api.NewOptNilString(os.Getenv("EMAIL_SHA256"))},
		CustomData:  api.NewOptNilEventCustomData(api.EventCustomData{"order": []byte(`"ogen"`)}),
	}
	ctx := context.Background()
	answer, err := c.SendEvent(ctx, &event, api.SendEventParams{})
	one, ok := answer.(*api.ReceiptHeaders)
	if err != nil || !ok {
		log.Fatalf("%v %+v", err, answer)
	}
	bad := event
	bad.CurrencyCode.Reset()
	answers, err := c.SendBatch(ctx, api.Batch{event, bad}, api.SendBatchParams{IdempotencyKey: api.NewOptString("ogen-1")})
	batch, ok := answers.(*api.SendBatchOKHeaders)
	if err != nil || !ok {
		log.Fatalf("%v %+v", err, answers)
	}
	problem := batch.Response.Errors[0]
	look, err := c.ReadSubmission(ctx, api.ReadSubmissionParams{
		SubmissionID: one.Response.SubmissionID, Include: api.NewOptReadSubmissionInclude(api.ReadSubmissionIncludeEvents),
	})
	found, ok := look.(*api.SubmissionHeaders)
	if err != nil || !ok {
		log.Fatalf("%v %+v", err, look)
	}
	fmt.Println(one.Response.Status, problem.Index.Value, problem.ErrorCode, found.Response.Accepted, len(found.Response.Events))
}
