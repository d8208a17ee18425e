package api

import (
	"encoding/json"
	"slices"

	"sluice/event"
)

// componentSchemas are the shapes that the OpenAPI document refers to.
func componentSchemas() object {
	return object{
		{"Event", eventSchema()},
		{"Batch", object{{"type", "array"}, {"minItems", 1}, {"maxItems", event.MaxEvents}, {"items", ref("Event")}}},
		{"Receipt", shape(3, object{
			{"submission_id", object{
				{"type", "string"}, {"pattern", `^(single|batch)\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`},
			}},
			{"received_at", timeSchema("UTC, whole seconds.")},
			{"status", object{{"type", "string"}, {"enum", []string{"RECEIVED"}}}},
			{"accepted", countSchema("Events queued. Only in a batch with something to say.")},
			{"rejected", countSchema("Events rejected.")},
			{"errors", listSchema(ref("Problem"), "Why events were rejected, at most 100 entries.")},
			{"errors_truncated", flagSchema("There were more.")},
			{"warnings", listSchema(ref("Warning"), "Remarks on accepted events.")},
			{"warnings_truncated", flagSchema("There were more.")},
		})},
		{"Error", shape(5, object{
			{"status", object{{"type", "string"}, {"enum", []string{"error"}}}},
			{"error_code", codesSchema(event.RuleKind, event.RequestKind)},
			{"message", textSchema("What is wrong, in words.")},
			{"request_id", textSchema("The id of this request.")},
			{"errors", listSchema(ref("Problem"),
				"Every problem found, at most 100 entries, by event, then in the order of the rules.")},
			{"events_by_code", object{
				{"type", "object"},
				{"description", "How many events have which code as their first problem. " +
					"Only if a whole batch is rejected for its events."},
				{"additionalProperties", object{{"type", "integer"}, {"format", "int64"}}},
			}},
			{"errors_truncated", flagSchema("There were more.")},
			{"warnings", listSchema(ref("Warning"), "Unknown members of the events.")},
			{"retryable", flagSchema("The same request may succeed later. Only with 429 and 5xx.")},
			{"doc_url", textSchema("Where this server explains error_code, relative to its address.")},
		})},
		{"Problem", shape(4, object{
			{"error_code", codesSchema(event.RuleKind, event.RequestKind)},
			{"field", textSchema("JSON Pointer inside the event; empty for the whole of it.")},
			{"message", textSchema("What is wrong. Never the value itself.")},
			{"hint", textSchema("How to correct it.")},
			{"index", countSchema("Which event of the batch, from 0. Only in a batch.")},
		})},
		{"Warning", shape(3, object{
			{"code", codesSchema(event.WarningKind)},
			{"field", textSchema("JSON Pointer inside the event.")},
			{"message", textSchema("What was noticed.")},
			{"index", countSchema("Which event of the batch, from 0. Only in a batch.")},
		})},
		{"Submission", shape(9, object{
			{"submission_id", textSchema("As in the receipt.")},
			{"data_set_id", textSchema("The dataset.")},
			{"received_at", timeSchema("UTC, whole seconds.")},
			{"status", object{
				{"type", "string"},
				{"enum", []string{"RECEIVED", "PROCESSED"}},
				{"description", "PROCESSED once the events are in the store."},
			}},
			{"accepted", countSchema("Events queued.")},
			{"rejected", countSchema("Events rejected.")},
			{"late", countSchema("Accepted events that were 7 to 30 days old.")},
			{"restricted", countSchema("Accepted events kept for measurement only.")},
			{"suppressed", countSchema("Accepted events kept without identifiers.")},
			{"events", listSchema(ref("SubmissionEvent"), "With include=events.")},
		})},
		{"SubmissionEvent", shape(6, object{
			{"index", countSchema("Position in the request.")},
			{"event_id", object{{"type", "string"}, {"format", "uuid"}}},
			{"event_type", textSchema("As sent.")},
			{"late", flagSchema("7 to 30 days old on receipt.")},
			{"privacy", outcomeSchema},
			{"optimization_eligible", flagSchema("Unrestricted and not late.")},
		})},
		{"Stats", numbersSchema()},
		{"Validation", shape(6, object{
			{"valid", flagSchema("No event would be rejected.")},
			{"accepted", countSchema("Events that would be queued.")},
			{"rejected", countSchema("Events that would be rejected.")},
			{"errors", listSchema(ref("Problem"), "Why, at most 100 entries.")},
			{"warnings", listSchema(ref("Warning"), "Remarks on the others, and unknown members of all.")},
			{"events", listSchema(ref("ValidEvent"), "What would become of each valid event.")},
			{"errors_truncated", flagSchema("There were more errors.")},
			{"warnings_truncated", flagSchema("There were more warnings.")},
		})},
		{"ValidEvent", shape(5, object{
			{"index", countSchema("Position in the request.")},
			{"event", object{
				{"type", "object"},
				{"additionalProperties", true},
				{"description", "The event as it would be stored, member by member."},
			}},
			{"privacy", outcomeSchema},
			{"privacy_reasons", listSchema(object{{"type", "string"}},
				"The signals that led to the outcome, such as usnat.SaleOptOut.")},
			{"gpp", object{
				{"type", []string{"object", "null"}},
				{"additionalProperties", true},
				{"description", "The consent string decoded, by section and field."},
			}},
		})},
	}
}

// eventSchema is the schema that /v1/schema/events serves, in the words that generators of clients understand: one type
// for each member, and no condition that depends on another member. It is looser than the schema it is made from,
// except that it asks for integers in gpp_sid and for a text in id.
func eventSchema() map[string]any {
	var ev map[string]any
	if err := json.Unmarshal(event.Schema(), &ev); err != nil {
		panic(err) // the schema is made once, from tables
	}
	delete(ev, "$schema") // the document's dialect is the same
	delete(ev, "$id")     // and it is not at home here
	delete(ev, "allOf")
	ev["description"] = ev["description"].(string) +
		" GET /v1/schema/events serves a JSON Schema that has the conditions, too: which member needs which."
	at := func(path ...string) map[string]any {
		n := ev
		for _, name := range path {
			n = n["properties"].(map[string]any)[name].(map[string]any)
		}
		return n
	}
	delete(ev["properties"].(map[string]any), "event_id") // another name of id
	at("id")["type"] = []string{"string", "null"}
	at("timestamp")["format"] = "int64"
	at("value")["format"] = "double" // some take a number without a format for 32 bits
	delete(at("identifiers"), "anyOf")
	delete(at("privacy"), "if")
	delete(at("privacy"), "then")
	at("privacy", "gpp_sid")["items"] = object{{"type", "integer"}}
	delete(at("currency_code"), "anyOf")
	at("custom_data")["additionalProperties"] = true
	return ev
}

func textSchema(description string) object {
	return object{{"type", "string"}, {"description", description}}
}

func countSchema(description string) object {
	return object{{"type", "integer"}, {"minimum", 0}, {"description", description}}
}

func timeSchema(description string) object {
	return object{{"type", "string"}, {"format", "date-time"}, {"description", description}}
}

func flagSchema(description string) object {
	return object{{"type", "boolean"}, {"description", description}}
}

func listSchema(of object, description string) object {
	return object{{"type", "array"}, {"description", description}, {"items", of}}
}

// shape is a schema of an object: the first n members are always there.
func shape(n int, properties object) object {
	var required []string
	for _, m := range properties[:n] {
		required = append(required, m.name)
	}
	return object{{"type", "object"}, {"required", required}, {"properties", properties}, {"additionalProperties", false}}
}

// codesSchema lists the codes of the given kinds.
func codesSchema(kinds ...event.Kind) object {
	var names []event.Code
	for _, info := range codeTable {
		if slices.Contains(kinds, info.Kind) {
			names = append(names, info.Code)
		}
	}
	return object{{"type", "string"}, {"enum", names}}
}

var outcomeSchema = object{{"type", "string"}, {"enum", []string{
	event.Unrestricted.String(), event.MeasurementOnly.String(), event.Suppressed.String(),
}}}
