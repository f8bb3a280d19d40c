import { createAction } from "latchkey/scripts";

export default createAction({
  description: "Returns the primary calendar.",
  exec: async (nango) => (await nango.get({ endpoint: "/v3/users/me/calendarList/primary" })).data,
});
