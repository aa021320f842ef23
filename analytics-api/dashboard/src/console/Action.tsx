// What changes something: who may do it, how it goes, and a fresh sign-in where it needs one.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { asProblem } from '../api/http';
import { explain, type Problem } from '../api/problem';
import { type Person, person, readSession, rememberPlace } from '../session';
import { tick } from '../watermark';

/** As long does a sign-in count as fresh. */
const FRESH_MS = 10 * 60_000;
const ROLES: Person['role'][] = ['reader', 'editor', 'owner'];

export interface Action<Arguments extends unknown[]> {
  busy: boolean;
  problem: Problem | null;
  /** Whether it was done. */
  run: (...given: Arguments) => Promise<boolean>;
  /** The same again. */
  again: () => void;
}

export function useAction<Arguments extends unknown[]>(act: (...given: Arguments) => Promise<void>): Action<Arguments> {
  const [state, setState] = useState<{ busy: boolean; problem: Problem | null }>({ busy: false, problem: null });
  const last = useRef<Arguments | null>(null);
  const isRunning = useRef(false);
  async function run(...given: Arguments) {
    if (isRunning.current) return false;
    isRunning.current = true;
    last.current = given;
    setState({ busy: true, problem: null });
    let problem: Problem | null = null;
    try {
      await act(...given);
    } catch (error) {
      problem = asProblem(error);
    }
    isRunning.current = false;
    setState({ busy: false, problem });
    return problem === null;
  }
  return { ...state, run, again: () => void (last.current && run(...last.current)) };
}

/** Why an action failed, if it did. */
export function Outcome({ of }: { of: Pick<Action<never>, 'problem' | 'again'> }) {
  if (!of.problem) return null;
  if (of.problem.code === 'sign_in_again') return <SignInAgain then={of.again} />;
  const { title, advice } = inWords(of.problem);
  return (
    <div class="failed" role="alert">
      <p>
        <strong>{title}.</strong> {advice}
      </p>
    </div>
  );
}

function inWords(problem: Problem) {
  if (problem.status === 400 || problem.status === 409) {
    const words = explain(problem, { retried: false });
    return { title: 'That wasn’t done', advice: words.advice };
  }
  return explain(problem, { retried: false });
}

/** Asks for a sign-in, and leads back to where the person was. */
export function SignInAgain({ then }: { then?: () => void }) {
  const action = useAction(async () => {
    await readSession();
    then?.();
  });
  useEffect(rememberPlace, []);
  return (
    <div class="prompt" role="alert">
      <p>
        <strong>Please sign in again.</strong> Keys, members and erasures can be changed for ten minutes after a
        sign-in, so that nobody does it at a screen that you left.
      </p>
      <p class="row">
        <a class="button" href="/api/v1/auth/login?fresh=true">
          Sign in again
        </a>
        <button type="button" disabled={action.busy} onClick={() => void action.run()}>
          I have signed in, continue
        </button>
      </p>
      <p class="note">You come back to this page. If you sign in by links, open a new one in this browser first.</p>
      <Outcome of={action} />
    </div>
  );
}

interface AllowedProps {
  /** Role that this needs. */
  needs: 'editor' | 'owner';
  /** Of what, in a sentence: "change domains". */
  to: string;
  /** Whether the sign-in must be fresh, too. */
  fresh?: boolean;
  /** Whether nothing is said: another one on the page does. */
  quiet?: boolean;
  children: ComponentChildren;
}

/** Shows its content to whom it is for, and others why they don't see it. */
export function Allowed({ needs, to, fresh, quiet, children }: AllowedProps) {
  const who = person.value;
  if (who === null) return null;
  if (!may(needs)) {
    return quiet ? null : (
      <p class="note refused">
        Your role is {who.role}. {needs === 'owner' ? 'Owners' : 'Editors and owners'} {to}: ask an owner of your
        account.
      </p>
    );
  }
  if (fresh && tick.value - Date.parse(who.signedInAt) >= FRESH_MS) return <SignInAgain />;
  return <>{children}</>;
}

/** Whether the person's role is at least this. */
export function may(role: 'editor' | 'owner'): boolean {
  const own = person.value?.role;
  return own !== undefined && ROLES.indexOf(own) >= ROLES.indexOf(role);
}
