/** A form that sends a request to an endpoint, and what other clients need: its keys or a token. */

import { useState } from "preact/hooks";
import { act, ApiError, get, segment } from "../../api";
import { duration, size } from "../../format";
import { useRole } from "../../hooks";
import { CopyButton } from "../../parts/copy-button";
import { Refused } from "../../parts/placeholders";
import type { Endpoint, EndpointKeys, EndpointToken, SampleAnswer } from "../../types";

const EXAMPLE = '{"data": [[1, 2, 3]]}';
const asError = (error: unknown): ApiError => (error instanceof ApiError ? error : new ApiError(0, String(error)));

export function TryIt({ endpoint, deployments }: { endpoint: Endpoint; deployments: string[] }) {
  const role = useRole();
  if (!role) return null;
  return (
    <section aria-label="Try a request">
      <h2 class="gap">Try a request</h2>
      {role === "reader" ? <p class="muted">Your role is reader: readers send no requests and see no keys. An owner of the server can give another role.</p> : (
        <>
          <TryForm endpoint={endpoint} deployments={deployments} />
          <Credentials endpoint={endpoint} />
        </>
      )}
    </section>
  );
}

/** What is wrong with a text as JSON; "" = nothing. */
export function problemOf(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return `This is no JSON: ${error instanceof Error ? error.message : error}. It is sent as it is.`;
  }
}

/** JSON indented, other text as it came. */
export function readable(answer: SampleAnswer): string {
  if (!answer.is_whole) return answer.body;
  try {
    return JSON.stringify(JSON.parse(answer.body), null, 1);
  } catch {
    return answer.body;
  }
}

function TryForm({ endpoint, deployments }: { endpoint: Endpoint; deployments: string[] }) {
  const [body, setBody] = useState(EXAMPLE);
  const [deployment, setDeployment] = useState("");
  const [isSending, setSending] = useState(false);
  const [answer, setAnswer] = useState<SampleAnswer>();
  const [refused, setRefused] = useState<ApiError>();
  const send = async () => {
    setSending(true);
    setRefused(undefined);
    try {
      setAnswer(await act<SampleAnswer>("POST", `/online-endpoints/${segment(endpoint.definition.name)}/requests`, {}, { body, deployment }));
    } catch (error) {
      setAnswer(undefined);
      setRefused(asError(error));
    }
    setSending(false);
  };
  const problem = problemOf(body);
  return (
    <form class="try-form" onSubmit={(event) => {
      event.preventDefault();
      void send();
    }}>
      <label><span class="hidden">The request's body, as JSON</span>
        <textarea rows={6} spellcheck={false} value={body} onInput={(event) => setBody(event.currentTarget.value)} />
      </label>
      {problem && <p class="tone-wait">{problem}</p>}
      <div class="filters">
        <label class="select">answered by
          <select value={deployment} onChange={(event) => setDeployment(event.currentTarget.value)}>
            <option value="">its traffic</option>
            {deployments.map((one) => <option key={one} value={one}>{one}</option>)}
          </select>
        </label>
        <button type="submit" class="main" disabled={isSending}>{isSending ? "Sending…" : "Send"}</button>
      </div>
      {refused && <Refused error={refused} />}
      {answer && <AnswerOf answer={answer} endpoint={endpoint.definition.name} />}
    </form>
  );
}

function AnswerOf({ answer, endpoint }: { answer: SampleAnswer; endpoint: string }) {
  const isGood = answer.status >= 200 && answer.status < 300;
  const took = answer.seconds < 1 ? `${Math.max(1, Math.round(answer.seconds * 1000))} ms` : duration(answer.seconds);
  return (
    <div role="status">
      <p><strong class={isGood ? "tone-good" : "tone-bad"}>{answer.status}</strong> after {took}{answer.deployment && ` by ${answer.deployment}`}</p>
      <pre class="block try-answer" tabIndex={0} aria-label="The answer">{readable(answer)}</pre>
      {!isGood && answer.deployment && <p class="muted">What its replicas wrote: <code>drumbeat online-deployment get-logs {answer.deployment} -e {endpoint}</code></p>}
      {!answer.is_whole && <p class="muted">Only the first {size(answer.body.length)} are shown.</p>}
    </div>
  );
}

/** The key or a token, asked for when it is wanted. */
function Credentials({ endpoint }: { endpoint: Endpoint }) {
  const [secret, setSecret] = useState("");
  const [refused, setRefused] = useState<ApiError>();
  const path = `/online-endpoints/${segment(endpoint.definition.name)}`;
  const hasKeys = endpoint.definition.auth_mode === "key";
  const ask = () =>
    (hasKeys ? get<EndpointKeys>(`${path}/keys`).then((keys) => keys.primary) : act<EndpointToken>("POST", `${path}/token`).then((token) => token.access_token))
      .then(setSecret, (error) => setRefused(asError(error)));
  const command = `curl ${endpoint.scoring_uri} -H "Authorization: Bearer ${secret}" -H "Content-Type: application/json" -d '${EXAMPLE}'`;
  return (
    <>
      {!secret && <p><button type="button" onClick={() => void ask()}>{hasKeys ? "Show a command with the key" : "Show a command with a token"}</button></p>}
      {refused && <Refused error={refused} />}
      {secret && (
        <>
          <p>Other clients send {hasKeys ? "the key" : "the token, which is valid for an hour"} <CopyButton text={command} /></p>
          <pre class="block try-command" tabIndex={0} aria-label="The command">{command}</pre>
        </>
      )}
    </>
  );
}
