// A form with one action: its fields, its button, and why it failed if it did.

import type { ComponentChildren } from 'preact';
import { type Action, Outcome } from './Action';

interface Props {
  action: Action<[]>;
  /** Of the button. */
  submit: string;
  /** Whether something must be chosen before. */
  disabled?: boolean;
  /** The fields. */
  children: ComponentChildren;
}

export function ActionForm({ action, submit, disabled, children }: Props) {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void action.run();
      }}
    >
      <div class="fields">
        {children}
        <button type="submit" class="primary" disabled={action.busy || disabled}>
          {submit}
        </button>
      </div>
      <Outcome of={action} />
    </form>
  );
}
