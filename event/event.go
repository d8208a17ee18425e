// Package event says what a conversion event is, when it is valid, what is stored of it.
//
// A [Decoder] reads a request body in one pass and gives rows for the events that break no rule, problems for those
// that do, warnings for what was understood but should be sent otherwise. It is pure: text and a time in, values out.
// The same code judges events in the server, in the SDK and in the sender's program.
//
// The tables [Fields], [Types] and [Codes] are the one place where members, event types and codes are listed; the
// decoder, [Schema] and the documentation are made from them. The examples in package rules show every rule.
//
// # How open points are read
//
//   - Nesting is counted from the event, which is the first of eight levels; the array around a batch does not count.
//   - A value of the wrong type is reported once: the member then counts as neither present nor absent.
//   - A blank timestamp is a missing one; any other string is an invalid one.
//   - Of id, event_id and custom_data.event_id the first that is there becomes sender_event_id, also where its type
//     leaves that empty. An event_id beside an id that it spells alike, such as "7" beside 7, gives no warning.
//   - gpp_sid without entries is a missing one; what its entries are matters only beside a gpp_string.
//   - The object custom_data is the first of its three levels; its members are the ones of that object, counted as
//     sent; its size is that of the text as sent. Nulls are dropped from objects and arrays at every level.
//   - Of a member that is named twice only the first value is judged. All of them are searched for e-mail addresses,
//     and none may name another dataset.
//   - A name that a sender made up is repeated in pointers unless it could be a value: an address, more than seven
//     digits, more than 128 bytes, characters that do not print. The pointer then ends before it.
//   - Of the unknown members of one event 32 are warned about by name. An answer holds at most 1,000 warnings.
//   - mmt_only is the sender's own choice: it gives no warning, and the policy that suppresses people who opted out
//     does not apply to it. Every restriction that comes from a consent signal counts as an opt-out there.
//   - A consent signal under a name or in a place that we do not read restricts the event to measurement, whatever its
//     value, null included. Names inside custom_data are not looked at.
//   - A suppressed row keeps data_set_id, event_type, times, value and currency, and cp_id where it is the dataset's
//     id. It keeps no consent string and no gpp_sid: text and lists of numbers can hold the hash that was removed.
package event
