// What went wrong, from the API's problem+json (RFC 9457) or from the network, and how a person is
// reported.

export class Problem extends Error {
  override readonly name = 'Problem';
  /** 0: no answer came. */
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly retryAfterS: number | null;
  readonly requestId: string | null;

  constructor(
    status: number,
    code: string,
    detail: string,
    retryAfterS: number | null = null,
    requestId: string | null = null,
  ) {
    super(detail || code);
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.retryAfterS = retryAfterS;
    this.requestId = requestId;
  }

  /** Whether the same request may succeed by itself a little later. */
  get passes(): boolean {
    return this.isQuota || this.status >= 500 || this.status === 0;
  }

  /** Whether the account's requests are used up for a while. */
  get isQuota(): boolean {
    return this.status === 429;
  }

  /** Whether the service didn't answer, or couldn't. */
  get isOutage(): boolean {
    return this.status === 0 || this.status >= 500;
  }
}

/** What a refused answer says. */
export async function problemOf(response: Response): Promise<Problem> {
  const after = Number(response.headers.get('retry-after') ?? Number.NaN);
  let body: unknown = null;
  try {
    body = await response.json();
  } catch {
    // A proxy's page or nothing at all: the status says enough.
  }
  const member = (name: string) => {
    const value = body && typeof body === 'object' ? (body as Record<string, unknown>)[name] : null;
    return typeof value === 'string' ? value : '';
  };
  const errors = body && typeof body === 'object' ? (body as { errors?: unknown }).errors : null;
  const first = Array.isArray(errors) ? (errors[0] as { detail?: unknown } | undefined) : undefined;
  const detail = typeof first?.detail === 'string' && first.detail ? first.detail : member('detail');
  return new Problem(
    response.status,
    member('code') || `http_${response.status}`,
    detail,
    Number.isFinite(after) && after >= 0 ? after : null,
    response.headers.get('x-request-id'),
  );
}

export interface Explanation {
  title: string;
  advice: string;
}

/** In words: what happened, and what to do. `retried`: the page asks again by itself. */
export function explain(problem: Problem, { retried = true } = {}): Explanation {
  const { title, advice } = inWords(problem, retried);
  // The API's details are parts of sentences; a domain's name stays as it is written.
  const isName = /^[^ ]+\.[^ ]/.test(advice);
  const raised = isName ? advice : advice.charAt(0).toUpperCase() + advice.slice(1);
  return { title, advice: raised.replace(/[^.!?…]$/, '$&.') };
}

const VERIFY =
  'POST /api/v1/verification/generate names a DNS record, file or tag that proves a domain; then sign in again.';

function refused({ code, detail }: Problem): Explanation {
  switch (code) {
    case 'no_verified_domain':
      return { title: 'No verified domain', advice: `${detail || 'your account has none'}. ${VERIFY}` };
    case 'domain_not_verified':
      return { title: 'Not your domain', advice: detail };
    case 'insufficient_scope':
      return { title: 'This API key may not read', advice: detail || 'It needs the scope “read”.' };
    case 'insufficient_role':
      return { title: 'Your role doesn’t allow this', advice: detail };
    case 'sign_in_again':
      return { title: 'Sign in again', advice: detail };
    default:
      return { title: 'You may not see this', advice: detail || 'Ask an owner of the account.' };
  }
}

function inWords(problem: Problem, retried: boolean): Explanation {
  const later = problem.retryAfterS === null ? 'in a moment' : `in ${problem.retryAfterS} s`;
  const why = (otherwise: string) => {
    // Who knows when says so, in the sentence's last part.
    const detail = problem.detail.replace(/[;,] try again[^;]*$/, '') || otherwise;
    return `${detail}. ${retried ? 'Trying' : 'Try'} again ${later}.`;
  };
  switch (problem.status) {
    case 0:
      return { title: 'No answer', advice: 'The service can’t be reached. Check the connection.' };
    case 400:
      return { title: 'This selection can’t be answered', advice: problem.detail || 'Choose another range or filter.' };
    case 401:
      if (problem.code === 'no_session') return { title: 'Your session has ended', advice: 'Sign in again.' };
      return problem.code === 'expired_api_key'
        ? { title: 'This API key has expired', advice: 'Create a new key and sign in with it.' }
        : { title: 'This API key isn’t valid', advice: 'It is mistyped, was revoked, or belongs to another service.' };
    case 403:
      return refused(problem);
    case 404:
      return { title: 'Nothing here', advice: problem.detail || 'No verified receipt of your domains names it.' };
    case 429:
      return { title: 'Too many requests', advice: why('The requests of your account are used up for now') };
    case 503:
      return { title: 'Busy or unavailable', advice: why('The numbers can’t be read right now') };
    default:
      return {
        title: 'Something went wrong',
        advice: problem.requestId
          ? `${problem.detail} Request ${problem.requestId}.`
          : problem.detail || `Status ${problem.status}.`,
      };
  }
}
