// Sends a message, and reads those of two pages.
import twilio from "twilio";

const { ADDRESS, KEY } = process.env;
const client = twilio("AC00000000000000000000000000000001", KEY);
client.api.baseUrl = ADDRESS;

const sent = await client.messages.create({ from: "+15005550006", to: "+15005550009", body: "hello & ü" });
const messages = await client.messages.list({ pageSize: 1, limit: 2 });
const refusal = await client
  .messages("SM404")
  .fetch()
  .catch((error) => error);

console.log(
  JSON.stringify({
    written: sent.sid,
    read: messages.map(({ sid }) => sid),
    refused: [refusal instanceof twilio.RestException, refusal.status, refusal.code],
  }),
);
