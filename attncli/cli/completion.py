"""Completion in a shell: the scripts that ask, and how Typer answers them."""

from __future__ import annotations

from attncli.cli.choices import FILES, FOLDERS
from attncli.errors import UsageError, did_you_mean

_BASH = r"""
_attncli_completion() {
    local cur=${COMP_WORDS[COMP_CWORD]} line paths=
    [[ $cur == = ]] && cur=
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :files) paths=-f ;;
            :folders) paths=-d ;;
            ?*) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <(_ATTNCLI_COMPLETE=complete_bash _TYPER_COMPLETE_ARGS="${COMP_LINE:0:COMP_POINT}" attncli 2>/dev/null)
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
    if [[ -z $paths ]]; then
        compopt +o default 2>/dev/null
    elif [[ $paths == -d || ${#COMPREPLY[@]} -gt 0 ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen $paths -- "$cur")
    fi
}
complete -o default -F _attncli_completion attncli
"""

_ZSH = r"""
#compdef attncli
_attncli_completion() {
    local typed="${(j: :)words[1,CURRENT-1]} $QIPREFIX$PREFIX" line
    local -a offered paths
    for line in "${(@f)$(_ATTNCLI_COMPLETE=complete_zsh _TYPER_COMPLETE_ARGS="$typed" attncli 2>/dev/null)}"; do
        case $line in
            :files) paths=(_files) ;;
            :folders) paths=(_files -/) ;;
            ?*) offered+=("${${line//:/\\:}/$'\t'/:}") ;;
        esac
    done
    [[ $PREFIX == --*=* ]] && compset -P '*='
    (( $#offered )) && _describe value offered
    (( $#paths )) && $paths
}
compdef _attncli_completion attncli
"""

_FISH = r"""
function _attncli_completion
    set -l word (commandline -ct)
    set -l option (string match -r -- '^--[^=]*=' $word)
    set -l rest (string replace -r -- '^--[^=]*=' '' $word)
    for line in (_ATTNCLI_COMPLETE=complete_fish _TYPER_COMPLETE_ARGS=(commandline -cp) attncli 2>/dev/null)
        switch $line
            case ''
            case ':files'
                string replace -r -- '^' "$option" (__fish_complete_path $rest)
            case ':folders'
                string replace -r -- '^' "$option" (__fish_complete_directories $rest)
            case '*'
                echo "$option$line"
        end
    end
end
complete --command attncli --no-files --arguments '(_attncli_completion)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
SHELLS = tuple(SCRIPTS)


def completion_script(shell: str) -> str:
    """Return the script to be sourced by a shell's start-up file.

    Raises:
        UsageError: There is no script for this shell.
    """
    if shell not in SCRIPTS:
        raise UsageError(f"no completion for the shell {shell!r}", did_you_mean(shell, SHELLS))
    return SCRIPTS[shell].lstrip()


def learn_shells() -> None:
    """Let Typer answer the scripts' questions, which it does by itself only under options of its own."""
    from typer._completion_classes import ZshComplete
    from typer._completion_classes import add_completion_class as add  # type: ignore[attr-defined]

    class Answer(ZshComplete):
        """What all our scripts read; as Typer's script for zsh, they hand over the line."""

        def complete(self) -> str:
            offered = self.get_completions(*self.get_completion_args())
            return "\n".join(_line(item.value, item.help or "") for item in offered)

    for shell in SHELLS:
        add(Answer, shell)


def _line(value: str, meaning: str) -> str:
    if meaning in (FILES, FOLDERS):
        return meaning
    return f"{value}\t{' '.join(meaning.split())}".rstrip("\t")
